# SPDX-License-Identifier: BSD-3-Clause
"""NIXL, mpi4py and UCXX use card memory in one process, started in the order of the arguments.

    ucx_gaudi run --cards 1 --ucx SITE-PACKAGES/libucx -- python one_process.py [ucx_gaudi nixl mpi4py ucxx]
"""

import asyncio
import ctypes
import importlib
import os
import sys

SIZE = 1 << 20


def card_memory(byte):
    import ucx_gaudi
    buffer = ucx_gaudi.Buffer(SIZE)
    buffer.memset(byte)
    return buffer


def as_bytes(buffer):
    """What mpi4py and UCXX take for memory that the processor cannot read."""
    return (ctypes.c_uint8 * buffer.nbytes).from_address(buffer.address)


def use_ucx_gaudi():
    import ucx_gaudi
    ucx_gaudi.enable()
    with card_memory(1) as buffer:
        return buffer.read() == b"\1" * SIZE


def use_nixl():
    """An agent reads card memory of its own into other card memory."""
    api = importlib.import_module("nixl_cu12._api")
    agent = api.nixl_agent("one", api.nixl_agent_config(backends=["UCX"]))
    with card_memory(2) as source, card_memory(0) as target:
        rows = [agent.get_reg_descs([(buffer.address, SIZE, 0, "")], "VRAM") for buffer in (source, target)]
        registered = [agent.register_memory(row) for row in rows]
        lists = [agent.get_xfer_descs([(buffer.address, SIZE, 0)], "VRAM") for buffer in (source, target)]
        handle = agent.initialize_xfer("READ", lists[1], lists[0], "one")
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        agent.release_xfer_handle(handle)
        arrived = state == "DONE" and target.read() == b"\2" * SIZE
        for row in registered:
            agent.deregister_memory(row)
        return arrived


def use_mpi4py():
    from mpi4py import MPI
    with card_memory(3) as source, card_memory(0) as target:
        request = MPI.COMM_SELF.Irecv([MPI.memory.fromaddress(target.address, SIZE), MPI.BYTE], source=0)
        MPI.COMM_SELF.Send([MPI.memory.fromaddress(source.address, SIZE), MPI.BYTE], dest=0)
        request.Wait()
        return target.read() == b"\3" * SIZE


def use_ucxx():
    import ucxx

    async def exchange(source, target):
        endpoint = await ucxx.create_endpoint_from_worker_address(ucxx.get_ucx_address_from_buffer(
            bytes(ucxx.get_worker_address())))
        await asyncio.gather(endpoint.send(as_bytes(source), tag=1, force_tag=True),
                             endpoint.recv(as_bytes(target), tag=1, force_tag=True))

    with card_memory(4) as source, card_memory(0) as target:
        asyncio.run(exchange(source, target))
        return target.read() == b"\4" * SIZE


if __name__ == "__main__":
    uses = {"ucx_gaudi": use_ucx_gaudi, "nixl": use_nixl, "mpi4py": use_mpi4py, "ucxx": use_ucxx}
    for name in sys.argv[1:]:
        print(f"{name}:", "every byte arrived" if uses[name]() else "WRONG BYTES", flush=True)
    os._exit(0)  # NIXL's wheels crash when Python exits
