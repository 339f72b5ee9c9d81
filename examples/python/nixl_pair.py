# SPDX-License-Identifier: BSD-3-Clause
"""Two processes with a NIXL agent each: the second reads the first one's Gaudi memory, and writes into it.

    ucx_gaudi run --cards 2 --hca -- python nixl_pair.py

Works with nixl-cu12 and nixl-cu13; on a server with cards, without `ucx_gaudi run`.
"""

import importlib
import multiprocessing
import os
import sys

import ucx_gaudi

SIZE = 64 << 20


def nixl():
    """NIXL's Python package, which has CUDA's version in its name."""
    for name in ("nixl_cu12", "nixl_cu13"):
        try:
            return importlib.import_module(f"{name}._api")
        except ModuleNotFoundError:
            pass
    raise SystemExit("NIXL is not installed: pip install --no-deps nixl-cu12")


def start_agent(name, buffer):
    """An agent that knows the buffer, and the buffer as NIXL names it."""
    api = nixl()
    agent = api.nixl_agent(name, api.nixl_agent_config(backends=["UCX"]))
    agent.register_memory(agent.get_reg_descs([(buffer.address, buffer.nbytes, 0, "")], "VRAM"))
    return agent, agent.get_xfer_descs([(buffer.address, buffer.nbytes, 0)], "VRAM")


def transfer(agent, operation, local, remote, peer, message=b""):
    handle = agent.initialize_xfer(operation, local, remote, peer, message)
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    if state != "DONE":
        raise SystemExit(f"{operation} ended with {state}")


def first(pipe):
    with ucx_gaudi.Buffer(SIZE) as buffer:
        buffer.memset(1)
        agent, memory = start_agent("first", buffer)
        pipe.send((agent.get_agent_metadata(), agent.get_serialized_descs(memory)))
        while not any(b"written" in messages for messages in agent.get_new_notifs().values()):
            pass
        print("write:", "every byte arrived" if buffer.read() == b"\2" * SIZE else "WRONG BYTES")


def second(pipe):
    with ucx_gaudi.Buffer(SIZE) as buffer:
        agent, memory = start_agent("second", buffer)
        metadata, descriptors = pipe.recv()
        peer, remote = agent.add_remote_agent(metadata), agent.deserialize_descs(descriptors)
        transfer(agent, "READ", memory, remote, peer)
        print("read: ", "every byte arrived" if buffer.read() == b"\1" * SIZE else "WRONG BYTES")
        buffer.memset(2)
        transfer(agent, "WRITE", memory, remote, peer, b"written")


def run(side, pipe):
    side(pipe)
    sys.stdout.flush()
    os._exit(0)  # at an ordinary exit the libnl inside NIXL's wheel crashes, also in a program without ucx-gaudi


if __name__ == "__main__":
    ucx_gaudi.enable()  # before NIXL loads its UCX
    spawn = multiprocessing.get_context("spawn")
    ends = spawn.Pipe()
    sides = [spawn.Process(target=run, args=(side, end)) for side, end in zip((first, second), ends)]
    for side in sides:
        side.start()
    for side in sides:
        side.join()
    raise SystemExit(any(side.exitcode != 0 for side in sides))
