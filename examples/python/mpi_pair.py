# SPDX-License-Identifier: BSD-3-Clause
"""Two ranks exchange Gaudi memory: Send and Recv, then Bcast.

    ucx_gaudi run --cards 2 --ucx DIR -- mpirun -n 2 python mpi_pair.py

DIR is the directory of Python packages with libucx-cu13: Open MPI's own UCX is older than 1.22, and does not load our
modules. Only operations that move bytes work on card memory; a reduction makes Open MPI's processor read it, and crashes.
"""

from mpi4py import MPI

import ucx_gaudi

SIZE = 64 << 20


def as_mpi(buffer):
    """What mpi4py takes for memory that the processor cannot read."""
    return [MPI.memory.fromaddress(buffer.address, buffer.nbytes), MPI.BYTE]


def expect(buffer, byte, what):
    print(f"{what}:", "every byte arrived" if buffer.read() == bytes([byte]) * SIZE else "WRONG BYTES", flush=True)


def main():
    world = MPI.COMM_WORLD
    with ucx_gaudi.Buffer(SIZE) as buffer:
        if world.rank == 0:
            buffer.memset(1)
            world.Send(as_mpi(buffer), dest=1)
        else:
            world.Recv(as_mpi(buffer), source=0)
            expect(buffer, 1, "Send and Recv")
            buffer.memset(2)
        world.Bcast(as_mpi(buffer), root=1)
        if world.rank == 0:
            expect(buffer, 2, "Bcast")
        world.Barrier()  # the memory stays until all have it


if __name__ == "__main__":
    main()
