# SPDX-License-Identifier: Apache-2.0
"""Four ranks of which two have been in a world of their own, and all then meet: by a communicator,
without one, and by it once more."""

import torch
from mpi4py import MPI

import horovod.torch as hvd

world = MPI.COMM_WORLD
half = world.Split(world.rank // 2)
if world.rank < 2:
    hvd.init(comm=half)
    assert hvd.size() == 2
    hvd.shutdown()
for comm in (world, None, world):
    hvd.init(comm=comm)
    assert (hvd.rank(), hvd.size()) == (world.rank, 4)
    assert hvd.allreduce(torch.ones(3), op=hvd.Sum, name="sum").tolist() == [4.0] * 3
    hvd.shutdown()
print("met again", flush=True)
