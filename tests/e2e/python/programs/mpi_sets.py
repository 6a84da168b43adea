# SPDX-License-Identifier: Apache-2.0
"""One rank of a world that mpirun started, with process sets by communicators of mpi4py."""

from __future__ import annotations

import torch
from cases import raises
from mpi4py import MPI

import horovod.torch as hvd


def check(one: hvd.ProcessSet, ranks: list[int]) -> None:
    assert one.ranks == ranks and one.included() and one.rank() == ranks.index(hvd.rank())
    total = hvd.allreduce(torch.tensor(1.0), op=hvd.Sum, process_set=one)
    assert total.item() == one.size() == len(ranks)


def some_of_it_twice(world: MPI.Intracomm) -> None:
    """A list and one side of a split are the same ranks: an error there, and none elsewhere."""
    size, rank = world.size, world.rank
    half = hvd.ProcessSet(world.Split(rank % 2))
    even = hvd.ProcessSet(list(range(0, size, 2)))
    if rank % 2 == 0:
        raises(ValueError, lambda: hvd.init(comm=world, process_sets=[half, even]))
    else:
        hvd.init(comm=world, process_sets=[half, even])
    hvd.init(comm=world, process_sets=[half])
    assert hvd.global_process_set.mpi_comm == world
    check(half, list(range(rank % 2, size, 2)))
    hvd.barrier()
    hvd.shutdown()


def main() -> None:
    world = MPI.COMM_WORLD
    size, rank = world.size, world.rank
    # Both sides of a split are sets.
    half = hvd.ProcessSet(world.Split(rank % 2))
    hvd.init(process_sets=[half])
    assert half.process_set_id == 1 + rank % 2
    check(half, list(range(rank % 2, size, 2)))
    hvd.barrier()  # a rank that leaves ends the operations of all sets
    hvd.shutdown()
    # A process that is no member has no communicator of the set.
    ends = [0, size - 1]
    comm = MPI.COMM_NULL
    if rank in ends:
        comm = world.Create_group(world.Get_group().Incl(ends))
    raises(ValueError, lambda: hvd.init(process_sets=[hvd.ProcessSet(world)]))
    assert hvd.size() == size and hvd.global_process_set.mpi_comm is None
    both = hvd.ProcessSet(comm)
    hvd.init(process_sets=[both])
    everything = hvd.mpi_ops._basics._get_process_set_ids_and_ranks()
    assert everything == {0: list(range(size)), 1: ends}, everything
    if rank in ends:
        check(both, ends)
    hvd.barrier()
    hvd.shutdown()
    some_of_it_twice(world)
    # One more, later.
    hvd.init(process_sets="dynamic")
    later = hvd.add_process_set(hvd.ProcessSet(comm if rank in ends else ends))
    if rank in ends:
        check(later, ends)
    assert hvd.remove_process_set(later)
    print(f"sets of {size}", flush=True)


main()
