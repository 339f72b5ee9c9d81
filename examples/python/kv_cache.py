# SPDX-License-Identifier: BSD-3-Clause
"""Hands the KV cache of a prompt from a prefill process to a decode process, as servers of language models do.

    ucx_gaudi run --cards 2 --hca -- python kv_cache.py

Each process has a paged cache on a card of its own: for each layer of the model, one buffer of blocks. The prefiller
computes the prompt's blocks of a layer and notifies the decoder, which READs them into blocks of its own cache, all in
one transfer; NIXL then notifies the prefiller that it may use its blocks for something else. Block numbers differ
between the two, as each uses what is free.

This is done over three paths. The table at the end has the bytes that the software cards copied to and from the host,
and the time on their virtual clock, on which links and cards take time and the host takes none.
"""

import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import subprocess
import sysconfig

import ucx_gaudi

LAYERS = 8
BLOCK = 64 << 10  # keys and values of 16 tokens: 8 heads of 128 elements of 2 bytes
CACHE_BLOCKS = 128
PROMPT_BLOCKS = 48
PREFILL_BLOCKS = random.Random(1).sample(range(CACHE_BLOCKS), PROMPT_BLOCKS)
DECODE_BLOCKS = random.Random(2).sample(range(CACHE_BLOCKS), PROMPT_BLOCKS)

# For each path, NIXL's way to handle errors and the settings of UCX. The default, "peer", reports the death of a peer,
# for which UCX's shared memory has no means: with "peer" UCX takes tcp instead.
PATHS = {"zero copy over RDMA": ("peer", {"UCX_TLS": "ib,gaudi_cpy"}),
         "staged over RDMA": ("peer", {"UCX_TLS": "ib,gaudi_cpy", "UCX_IB_GPU_DIRECT_RDMA": "n"}),
         "shared memory": ("none", {"UCX_TLS": "shm,gaudi_cpy"})}
PACE = {"SOFTGAUDI_PACE": "virtual:down:25,up:25,card:1000,submit:5,map:20",
        "SOFTHCA_PACE": "virtual:link:25,latency:2"}


def nixl():
    """NIXL's Python package, which has CUDA's version in its name."""
    for name in ("nixl_cu12", "nixl_cu13"):
        try:
            return importlib.import_module(f"{name}._api")
        except ModuleNotFoundError:
            pass
    raise SystemExit("NIXL is not installed: pip install --no-deps nixl-cu12")


def compute_block(layer, number):
    """Stands for the model: the bytes that a block of the prompt has in a layer."""
    return random.Random(layer * PROMPT_BLOCKS + number).randbytes(BLOCK)


def list_blocks(layers):
    """All blocks of a cache as NIXL names memory: address, length, device."""
    return [(address + block * BLOCK, BLOCK, 0) for address in layers for block in range(CACHE_BLOCKS)]


def index_blocks(layer, blocks):
    """Where these blocks of a layer are in list_blocks()."""
    return [layer * CACHE_BLOCKS + block for block in blocks]


class Cache:
    """The paged cache of one process, and the agent that lets others reach it."""

    def __init__(self, name, path):
        error_handling, settings = PATHS[path]
        os.environ.update(settings)  # before NIXL loads its UCX
        self.layers = [ucx_gaudi.Buffer(CACHE_BLOCKS * BLOCK) for _ in range(LAYERS)]
        for layer in self.layers:
            layer.memset(0)
        self.addresses = [layer.address for layer in self.layers]
        api = nixl()
        self.agent = api.nixl_agent(name, api.nixl_agent_config(backends=[]))
        self.agent.create_backend("UCX", {"ucx_error_handling_mode": error_handling})
        self.agent.register_memory([(layer.address, layer.nbytes, 0, "") for layer in self.layers], "VRAM")

    def wait_for(self, message):
        while not any(message in messages for messages in self.agent.get_new_notifs().values()):
            pass


def prefill(path, pipe, _):
    cache = Cache("prefill", path)
    pipe.send((cache.agent.get_agent_metadata(), cache.addresses))
    decoder = cache.agent.add_remote_agent(pipe.recv())
    for layer in range(LAYERS):
        for number, block in enumerate(PREFILL_BLOCKS):
            cache.layers[layer].write(compute_block(layer, number), block * BLOCK)
        cache.agent.send_notif(decoder, b"computed %d" % layer)
        cache.wait_for(b"read %d" % layer)
        pipe.recv()  # the decoder has read the counters, on which computing the next layer shows


def decode(path, pipe, result):
    cache = Cache("decode", path)
    agent = cache.agent
    metadata, addresses = pipe.recv()
    prefiller = agent.add_remote_agent(metadata)
    pipe.send(agent.get_agent_metadata())
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", list_blocks(cache.addresses), "VRAM")
    remote = agent.prep_xfer_dlist(prefiller, list_blocks(addresses), "VRAM")
    nanoseconds = staged = 0
    for layer in range(LAYERS):
        cache.wait_for(b"computed %d" % layer)
        before = read_counters()
        handle = agent.make_prepped_xfer("READ", local, index_blocks(layer, DECODE_BLOCKS), remote,
                                         index_blocks(layer, PREFILL_BLOCKS), b"read %d" % layer)
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        if state != "DONE":
            raise SystemExit(f"the READ of layer {layer} ended with {state}")
        after = read_counters()
        nanoseconds, staged = nanoseconds + after[0] - before[0], staged + after[1] - before[1]
        pipe.send("counted")
    good = all(cache.layers[layer].read(BLOCK, block * BLOCK) == compute_block(layer, number)
               for layer in range(LAYERS) for number, block in enumerate(DECODE_BLOCKS))
    result.send((good, nanoseconds, staged))


def read_counters():
    """The virtual clock in nanoseconds, and the bytes that all cards copied to and from the host so far."""
    program = os.path.join(sysconfig.get_path("scripts"), "softgaudi_stat")
    report = json.loads(subprocess.check_output([program, "--json"]))
    return report["clock_ns"], sum(card["up_bytes"] + card["down_bytes"] for card in report["cards"])


def run_side(side, *arguments):
    side(*arguments)
    os._exit(0)  # at an ordinary exit the libnl inside NIXL's wheel crashes, also in a program without ucx-gaudi


def hand_over(path):
    """Runs both processes over this path; returns what the decoder found."""
    spawn = multiprocessing.get_context("spawn")
    ends, (result, to_result) = spawn.Pipe(), spawn.Pipe(duplex=False)
    sides = [spawn.Process(target=run_side, args=(side, path, end, to_result))
             for side, end in zip((prefill, decode), ends)]
    for side in sides:
        side.start()
    while running := [side for side in sides if side.is_alive()]:
        multiprocessing.connection.wait([side.sentinel for side in running])
        if any(side.exitcode for side in sides):
            for side in running:
                side.terminate()  # it would wait for the other for ever
            raise SystemExit(f"{path}: one of the two processes failed")
    return result.recv()


def main():
    if "SOFTHCA_DIR" not in os.environ:
        raise SystemExit("run it as: ucx_gaudi run --cards 2 --hca -- python kv_cache.py")
    os.environ.update(PACE)
    ucx_gaudi.enable()  # before NIXL loads its UCX
    print(f"software (softgaudi, softhca): {PROMPT_BLOCKS} blocks of {BLOCK >> 10} KiB in each of {LAYERS} layers")
    print(f"{'path':<22}{'MiB':>5}{'time':>9}{'bytes through the host':>25}")
    results = {}
    for path in PATHS:
        good, nanoseconds, staged = results[path] = hand_over(path)
        ratio = nanoseconds / results["zero copy over RDMA"][1]
        print(f"{path:<22}{LAYERS * PROMPT_BLOCKS * BLOCK >> 20:>5}{ratio:>7.1f} x{staged:>25}   "
              f"{'every byte arrived' if good else 'WRONG BYTES'}", flush=True)
    raise SystemExit(not all(good for good, _, _ in results.values()))


if __name__ == "__main__":
    main()
