# SPDX-License-Identifier: Apache-2.0
"""One rank of a world that mpirun started. The argument says what hvd.init is given: `nothing`, the
whole communicator of mpi4py (`world`), that of every second rank (`half`), or of itself (`self`).
"""

import sys

import torch

import horovod.torch as hvd


def check_compression() -> None:
    """A gradient is rounded to a half on the way."""
    parameter = torch.nn.Parameter(torch.ones(3001))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameter], lr=1.0), compression=hvd.Compression.fp16
    )
    (parameter * (hvd.rank() + 1 + 2.0**-12)).sum().backward()
    optimizer.synchronize()
    if hvd.size() > 1:
        assert parameter.grad.eq((hvd.size() + 1) / 2).all(), parameter.grad


def main(given: str) -> None:
    comm = None
    if given != "nothing":
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        part = world.rank if given == "self" else world.rank % 2
        comm = world if given == "world" else world.Split(part)
    for round_ in range(2):
        hvd.init(comm=comm)
        size, rank = hvd.size(), hvd.rank()
        if comm is not None:
            assert (rank, size) == (comm.rank, comm.size), (rank, size)
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
            ones = torch.full((3001,), rank + 1, dtype=dtype)
            total = hvd.allreduce(ones, op=hvd.Sum, name=f"sum {dtype}")
            assert total.eq(size * (size + 1) // 2).all(), total
        check_compression()
        rows = hvd.allgather(torch.full((rank + 1, 2), rank), name="rows")
        assert rows[:, 0].tolist() == [r for r in range(size) for _ in range(r + 1)], rows
        root = hvd.broadcast(torch.full((5,), rank), size - 1, name="root")
        assert root.eq(size - 1).all(), root
        if round_ == 0:
            hvd.shutdown()
    facts = f"{hvd.mpi_built()} {hvd.mpi_enabled()} {hvd.mpi_threads_supported()}"
    if comm is not None:
        # Theirs and ours do not disturb each other.
        assert comm.allreduce(1) == size
    print(f"world of {size}: {facts}", flush=True)


main(sys.argv[1])
