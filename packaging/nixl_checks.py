# SPDX-License-Identifier: BSD-3-Clause
"""Transfers of every kind between two NIXL agents in two processes, each checked byte by byte, and the bytes that the
software cards and HCAs counted meanwhile.

    ucx_gaudi run --cards 2 [--hca] -- python nixl_checks.py [--networks] [PACKAGE PACKAGE]

PACKAGE is nixl, nixl_cu12 or nixl_cu13, one for each agent. With --networks each agent is in a network namespace of
its own.
"""

import argparse
import collections
import contextlib
import ctypes
import importlib
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import subprocess
import sys
import time

import two_networks
import ucx_gaudi
import ucx_gaudi.places

BLOCK = 512
BLOCKS = 20_000
SIZE = BLOCK * BLOCKS
TIME_LIMIT_S = 120  # for what never comes
SOURCE = random.Random(1).randbytes(SIZE)
TARGET = random.Random(2).randbytes(SIZE)

KINDS = [("VRAM", "VRAM"), ("VRAM", "DRAM"), ("DRAM", "VRAM")]
NAMES = ["first", "second"]

# ranges: (offset in the source, offset in the target, length)
Case = collections.namedtuple("Case", "initiator operation source target ranges")
# bytes that cards copied to and from host memory, and bytes of card memory that HCAs moved (None without an HCA)
Moved = collections.namedtuple("Moved", "staged direct")


def shuffled_blocks():
    """Every other block, each to another place: nothing to merge, and what must not change is beside what must."""
    half = BLOCKS // 2
    places = random.Random(3)
    return [(source * BLOCK, target * BLOCK, BLOCK) for source, target in
            zip(places.sample(range(BLOCKS), half), places.sample(range(BLOCKS), half))]


def all_cases():
    shapes = [[(4099, 77, (4 << 20) + 13)], shuffled_blocks()]
    for ranges, (source, target), operation, initiator in itertools.product(shapes, KINDS, ("READ", "WRITE"), (0, 1)):
        yield Case(initiator, operation, source, target, ranges)


def expect_target(case):
    """The target after the transfer: what lies outside of the ranges stays as it was."""
    expected = bytearray(TARGET)
    for source, target, length in case.ranges:
        expected[target:target + length] = SOURCE[source:source + length]
    return expected


class HostMemory:
    """With the functions of ucx_gaudi.Buffer."""

    def __init__(self, nbytes):
        self._bytes = bytearray(nbytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._bytes))

    def write(self, data):
        self._bytes[:] = data

    def read(self):
        return bytes(self._bytes)

    def free(self):
        pass


def read_json(program):
    return json.loads(subprocess.check_output([ucx_gaudi.places.find("bin", program), "--json"]))


def read_moved():
    """What all cards and HCAs moved so far."""
    staged = sum(card["up_bytes"] + card["down_bytes"] for card in read_json("softgaudi_stat")["cards"])
    if "SOFTHCA_DIR" not in os.environ:
        return Moved(staged, None)
    return Moved(staged, sum(sum(device["dmabuf"].values()) for device in read_json("softhca_stat")["devices"]))


class Side:
    def __init__(self, index, package, pipe):
        self.index = index
        self._pipe = pipe
        self._memory = {"VRAM": ucx_gaudi.Buffer(SIZE), "DRAM": HostMemory(SIZE)}
        api = importlib.import_module(f"{package}._api")
        self._agent = api.nixl_agent(NAMES[index], api.nixl_agent_config(backends=["UCX"]))
        self._registered = [self._agent.register_memory([(memory.address, SIZE, 0, "")], kind)
                            for kind, memory in self._memory.items()]
        self._addresses = {kind: memory.address for kind, memory in self._memory.items()}
        metadata, self._peer_addresses = self._trade((self._agent.get_agent_metadata(), self._addresses))
        self._peer = self._agent.add_remote_agent(metadata)
        self._trade("connected")

    def close(self):
        self._trade("done")
        for registered in self._registered:
            self._agent.deregister_memory(registered)
        for memory in self._memory.values():
            memory.free()

    def check_notifications(self):
        """A notification without a transfer, in both directions at once."""
        self._agent.send_notif(self._peer, NAMES[self.index].encode())
        self._await_notification(NAMES[1 - self.index].encode())

    def check(self, number, case):
        """Runs one transfer; returns whether the memory of both sides is right, and what moved."""
        initiates = self.index == case.initiator
        is_source = initiates == (case.operation == "WRITE")
        memory = self._memory[case.source if is_source else case.target]
        memory.write(SOURCE if is_source else TARGET)
        self._trade("ready")
        message, moved = f"transfer {number}".encode(), None
        if initiates:
            before = read_moved()
            self._transfer(case, message)
            after = read_moved()
            moved = Moved(after.staged - before.staged, after.direct and after.direct - before.direct)
        else:
            self._await_notification(message)
        theirs = self._trade(moved)
        good = memory.read() == (SOURCE if is_source else expect_target(case))
        return good & self._trade(good), moved or theirs

    def _transfer(self, case, message):
        own_is_source = case.operation == "WRITE"
        own, peers = self._addresses, self._peer_addresses
        sources, targets = (own, peers) if own_is_source else (peers, own)
        source = [(sources[case.source] + start, length, 0) for start, _, length in case.ranges]
        target = [(targets[case.target] + start, length, 0) for _, start, length in case.ranges]
        source = self._agent.get_xfer_descs(source, case.source)
        target = self._agent.get_xfer_descs(target, case.target)
        local, remote = (source, target) if own_is_source else (target, source)
        handle = self._agent.initialize_xfer(case.operation, local, remote, self._peer, message)
        state = self._agent.transfer(handle)
        limit = time.monotonic() + TIME_LIMIT_S
        while state == "PROC" and time.monotonic() < limit:
            state = self._agent.check_xfer_state(handle)
        if state != "DONE":
            raise SystemExit(f"{case.operation} of {case.source} to {case.target} ended with {state}")
        self._agent.release_xfer_handle(handle)

    def _await_notification(self, message):
        found, limit = {}, time.monotonic() + TIME_LIMIT_S
        while not found and time.monotonic() < limit:
            found = self._agent.get_new_notifs()
        if found != {NAMES[1 - self.index]: [message]}:
            raise SystemExit(f"{NAMES[self.index]} got the notifications {found}, not {message}")

    def _trade(self, value):
        """Gives the peer a value for one of its own; also waits for the peer."""
        self._pipe.send(value)
        return self._pipe.recv()


def find_fault(case, moved):
    """With an HCA all bytes of cards go through it, and none through the host; without one, all through the host."""
    length = sum(length for _, _, length in case.ranges)
    on_cards = length * (case.source, case.target).count("VRAM")
    expected = Moved(on_cards, None) if moved.direct is None else Moved(0, on_cards)
    return "" if moved == expected else f"expected {expected}, counted {moved}"


def run_side(index, package, pipe):
    side = Side(index, package, pipe)
    side.check_notifications()
    faults = 0
    for number, case in enumerate(all_cases()):
        good, moved = side.check(number, case)
        fault = find_fault(case, moved) if good else "WRONG BYTES"
        faults += bool(fault)
        if index == 0:
            print(f"{case.operation:<5}  {case.source} to {case.target}  by {NAMES[case.initiator]:<6} "
                  f"{len(case.ranges):>6} descriptors  {moved.staged:>9} bytes staged in the host:  "
                  f"{fault or 'every byte arrived'}", flush=True)
    side.close()
    os._exit(faults != 0)  # at an ordinary exit the libnl inside NIXL's wheel crashes, also without ucx-gaudi


def run_both(packages, prefixes):
    """Starts both sides; true if both ended well."""
    ends, sides = multiprocessing.Pipe(), []
    for index, (end, prefix) in enumerate(zip(ends, prefixes)):
        sides.append(subprocess.Popen([*prefix, sys.executable, os.path.abspath(__file__), "--side", str(index),
                                       str(end.fileno()), *packages], pass_fds=[end.fileno()]))
    for end in ends:
        end.close()  # so that a side that dies ends the other
    return [side.wait() for side in sides] == [0, 0]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("packages", nargs="*", default=["nixl_cu12", "nixl_cu12"])
    arguments.add_argument("--networks", action="store_true")
    arguments.add_argument("--side", nargs=2, type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    ucx_gaudi.enable()
    if options.side:
        index, pipe = options.side
        run_side(index, options.packages[index], multiprocessing.connection.Connection(pipe))
    with two_networks.join_two() if options.networks else contextlib.nullcontext() as networks:
        good = run_both(options.packages, [network.prefix() for network in networks] if networks else [[], []])
        if networks:
            print("over the link between the networks:", sum(network.sent_bytes() for network in networks), "bytes")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
