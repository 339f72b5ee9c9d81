# SPDX-License-Identifier: BSD-3-Clause
"""What MPI does with card memory. Every rank has memory on a card of its own:

    mpirun -n 4 python mpi_checks.py            # all operations that work
    mpirun -n 4 python mpi_checks.py Allreduce  # one; this one crashes

The right neighbour of a rank is the next one, that of the last is rank 0.
"""

import sys

from mpi4py import MPI

import ucx_gaudi

SIZES = (1, 4097, 1 << 20, (16 << 20) + 3)  # eager, rendezvous, and several fragments of a rendezvous
WORLD = MPI.COMM_WORLD
RIGHT = (WORLD.rank + 1) % WORLD.size
LEFT = (WORLD.rank - 1) % WORLD.size


def pattern(seed, size):
    """Bytes that differ from place to place, and at each place from seed to seed."""
    return (bytes(range(251)) * (size // 251 + 2))[seed % 251:][:size]


class Card:
    """Memory on the card of this rank, with a pattern in it."""

    def __init__(self, size, seed):
        self.buffer = ucx_gaudi.Buffer(size, device=WORLD.rank)
        self.write(seed)

    def write(self, seed):
        self.buffer.write(pattern(seed, self.buffer.nbytes))

    def read(self):
        return self.buffer.read()

    @property
    def mpi(self):
        """What mpi4py takes for memory that the processor cannot read."""
        return [MPI.memory.fromaddress(self.buffer.address, self.buffer.nbytes), MPI.BYTE]


class Host:
    """The same in host memory."""

    def __init__(self, size, seed):
        self.memory = bytearray(pattern(seed, size))

    def write(self, seed):
        self.memory[:] = pattern(seed, len(self.memory))

    def read(self):
        return bytes(self.memory)

    @property
    def mpi(self):
        return [self.memory, MPI.BYTE]


def fail(problem):
    """Ends all ranks: the others may be waiting for this one."""
    print(f"rank {WORLD.rank}: {problem}", file=sys.stderr, flush=True)
    WORLD.Abort(1)


def expect_bytes(memory, expected):
    if memory.read() != expected:
        fail("WRONG BYTES")


def expect(memory, seed):
    expect_bytes(memory, pattern(seed, len(memory.read())))


def xor(seeds, size):
    """The patterns of the seeds, combined bit by bit."""
    combined = 0
    for seed in seeds:
        combined ^= int.from_bytes(pattern(seed, size), "little")
    return combined.to_bytes(size, "little")


OWN, NOTHING = WORLD.rank + 1, 100  # seeds of what a rank sends, and of what nobody sends


def send_recv(size, source=Card, target=Card):
    source, target = source(size, OWN), target(size, NOTHING)
    if WORLD.rank == 0:
        WORLD.Send(source.mpi, RIGHT)
    WORLD.Recv(target.mpi, LEFT)
    if WORLD.rank != 0:
        WORLD.Send(source.mpi, RIGHT)
    expect(target, LEFT + 1)


def isend_irecv(size):
    """With all ranks at once."""
    source, targets = Card(size, OWN), [Card(size, NOTHING) for _ in range(WORLD.size)]
    others = [rank for rank in range(WORLD.size) if rank != WORLD.rank]
    requests = [WORLD.Irecv(targets[rank].mpi, rank) for rank in others]
    requests += [WORLD.Isend(source.mpi, rank) for rank in others]
    MPI.Request.Waitall(requests)
    for rank in others:
        expect(targets[rank], rank + 1)


def sendrecv(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    WORLD.Sendrecv(source.mpi, RIGHT, recvbuf=target.mpi, source=LEFT)
    expect(target, LEFT + 1)


def ssend(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    request = WORLD.Irecv(target.mpi, LEFT)
    WORLD.Ssend(source.mpi, RIGHT)
    request.Wait()
    expect(target, LEFT + 1)


def mprobe(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    request = WORLD.Isend(source.mpi, RIGHT)
    status = MPI.Status()
    message = WORLD.Mprobe(LEFT, status=status)
    if status.Get_count(MPI.BYTE) != size:
        fail(f"{status.Get_count(MPI.BYTE)} bytes announced instead of {size}")
    message.Recv(target.mpi)
    request.Wait()
    expect(target, LEFT + 1)


def persistent(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    requests = [WORLD.Recv_init(target.mpi, LEFT), WORLD.Send_init(source.mpi, RIGHT)]
    for turn in range(3):
        source.write(OWN + 10 * turn)
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        expect(target, LEFT + 1 + 10 * turn)
    for request in requests:
        request.Free()


def bcast(size):
    for root in range(WORLD.size):
        memory = Card(size, OWN if WORLD.rank == root else NOTHING)
        WORLD.Bcast(memory.mpi, root)
        expect(memory, root + 1)


def put_fence(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    window = MPI.Win.Create(target.mpi[0], comm=WORLD)
    window.Fence()
    window.Put(source.mpi, RIGHT)
    window.Fence()
    expect(target, LEFT + 1)
    window.Free()


def get_fence(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    window = MPI.Win.Create(source.mpi[0], comm=WORLD)
    window.Fence()
    window.Get(target.mpi, RIGHT)
    window.Fence()
    expect(target, RIGHT + 1)
    window.Free()


def put_lock(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    window = MPI.Win.Create(target.mpi[0], comm=WORLD)
    window.Lock(RIGHT)
    window.Put(source.mpi, RIGHT)
    window.Unlock(RIGHT)
    WORLD.Barrier()
    expect(target, LEFT + 1)
    window.Free()


def get_lock(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    window = MPI.Win.Create(source.mpi[0], comm=WORLD)
    WORLD.Barrier()
    window.Lock(RIGHT)
    window.Get(target.mpi, RIGHT)
    window.Unlock(RIGHT)
    expect(target, RIGHT + 1)
    window.Free()


def allreduce(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    WORLD.Allreduce(source.mpi, target.mpi, MPI.BXOR)
    expect_bytes(target, xor(range(1, WORLD.size + 1), size))


def reduce(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    WORLD.Reduce(source.mpi, target.mpi, MPI.BXOR)
    expect_bytes(target, xor(range(1, WORLD.size + 1), size) if WORLD.rank == 0 else pattern(NOTHING, size))


def allgather(size):
    source, target = Card(size, OWN), Card(size * WORLD.size, NOTHING)
    WORLD.Allgather(source.mpi, target.mpi)
    expect_bytes(target, b"".join(pattern(rank + 1, size) for rank in range(WORLD.size)))


def gather(size):
    source, target = Card(size, OWN), Card(size * WORLD.size, NOTHING)
    WORLD.Gather(source.mpi, target.mpi)
    if WORLD.rank == 0:
        expect_bytes(target, b"".join(pattern(rank + 1, size) for rank in range(WORLD.size)))


def scatter(size):
    source, target = Card(size * WORLD.size, 1), Card(size, NOTHING)
    WORLD.Scatter(source.mpi, target.mpi)
    expect_bytes(target, pattern(1, size * WORLD.size)[WORLD.rank * size:][:size])


def alltoall(size):
    source, target = Card(size * WORLD.size, OWN), Card(size * WORLD.size, NOTHING)
    WORLD.Alltoall(source.mpi, target.mpi)
    expect_bytes(target, b"".join(pattern(rank + 1, size * WORLD.size)[WORLD.rank * size:][:size]
                                  for rank in range(WORLD.size)))


def derived_datatype(size):
    """Every second byte."""
    half = max(size // 2, 1)
    datatype = MPI.BYTE.Create_vector(half, 1, 2).Commit()
    source, target = Card(2 * half, OWN), Card(2 * half, NOTHING)
    WORLD.Sendrecv([source.mpi[0], 1, datatype], RIGHT, recvbuf=[target.mpi[0], 1, datatype], source=LEFT)
    expected = bytearray(pattern(NOTHING, 2 * half))
    expected[::2] = pattern(LEFT + 1, 2 * half)[::2]
    expect_bytes(target, bytes(expected))


def bsend(size):
    MPI.Attach_buffer(bytearray(2 * size + MPI.BSEND_OVERHEAD))
    source, target = Card(size, OWN), Card(size, NOTHING)
    WORLD.Bsend(source.mpi, RIGHT)
    WORLD.Recv(target.mpi, LEFT)
    MPI.Detach_buffer()
    expect(target, LEFT + 1)


def accumulate(size):
    source, target = Card(size, OWN), Card(size, NOTHING)
    window = MPI.Win.Create(target.mpi[0], comm=WORLD)
    window.Fence()
    window.Accumulate(source.mpi, RIGHT, op=MPI.BXOR)
    window.Fence()
    expect_bytes(target, xor((LEFT + 1, NOTHING), size))
    window.Free()


WORK = {"Send, Recv": send_recv, "Isend, Irecv": isend_irecv, "Sendrecv": sendrecv, "Ssend": ssend, "Mprobe, Mrecv": mprobe,
        "Send_init, Recv_init": persistent, "Bcast": bcast,
        "Send from card, Recv in host memory": lambda size: send_recv(size, Card, Host),
        "Send from host memory, Recv on card": lambda size: send_recv(size, Host, Card),
        "Put, Fence": put_fence, "Get, Fence": get_fence, "Put, Unlock": put_lock, "Get, Unlock": get_lock}
DO_NOT = {"Allreduce": allreduce, "Reduce": reduce, "Allgather": allgather, "Gather": gather, "Scatter": scatter, "Alltoall": alltoall,
          "derived datatype": derived_datatype, "Bsend": bsend, "Accumulate": accumulate}

if __name__ == "__main__":
    checks = {**WORK, **DO_NOT}
    for name in sys.argv[1:] or WORK:
        for length in SIZES:
            checks[name](length)
            WORLD.Barrier()
        if WORLD.rank == 0:
            print(f"{name}: every byte arrived", flush=True)
