# SPDX-License-Identifier: BSD-3-Clause
"""Two processes exchange Gaudi memory by UCXX's tag send and receive.

    ucx_gaudi run --cards 2 -- python ucxx_pair.py

On a server with cards, without `ucx_gaudi run`.
"""

import asyncio
import ctypes
import multiprocessing

import ucx_gaudi

SIZE = 64 << 20
TAG = 1


def as_ucxx(buffer):
    """What UCXX takes for memory that the processor cannot read."""
    return (ctypes.c_uint8 * buffer.nbytes).from_address(buffer.address)


def expect(buffer, byte, what):
    print(f"{what}:", "every byte arrived" if buffer.read() == bytes([byte]) * SIZE else "WRONG BYTES", flush=True)


async def first(endpoint, buffer):
    buffer.memset(1)
    await endpoint.send(as_ucxx(buffer), tag=TAG, force_tag=True)
    await endpoint.recv(as_ucxx(buffer), tag=TAG, force_tag=True)
    expect(buffer, 2, "back")


async def second(endpoint, buffer):
    await endpoint.recv(as_ucxx(buffer), tag=TAG, force_tag=True)
    expect(buffer, 1, "there")
    buffer.memset(2)
    await endpoint.send(as_ucxx(buffer), tag=TAG, force_tag=True)


async def exchange(side, device, pipe):
    import ucxx  # loads UCX, so it comes after enable()

    with ucx_gaudi.Buffer(SIZE, device=device) as buffer:
        pipe.send(bytes(ucxx.get_worker_address()))
        address = ucxx.get_ucx_address_from_buffer(pipe.recv())
        endpoint = await ucxx.create_endpoint_from_worker_address(address)
        await side(endpoint, buffer)
        pipe.send("done")  # the memory and the endpoint stay until both have it
        pipe.recv()


def run(side, device, pipe):
    asyncio.run(exchange(side, device, pipe))


if __name__ == "__main__":
    ucx_gaudi.enable()
    spawn = multiprocessing.get_context("spawn")
    ends = spawn.Pipe()
    sides = [spawn.Process(target=run, args=(side, card, end)) for card, (side, end) in enumerate(zip((first, second), ends))]
    for side in sides:
        side.start()
    for side in sides:
        side.join()
    raise SystemExit(any(side.exitcode != 0 for side in sides))
