# SPDX-License-Identifier: Apache-2.0
"""Two worlds of every second rank, of which rank 3 fails while its peer waits for it."""

import torch
from mpi4py import MPI

import horovod.torch as hvd

world = MPI.COMM_WORLD
hvd.init(comm=world.Split(world.rank % 2))
hvd.allreduce(torch.ones(3), name="first")
if world.rank == 3:
    raise ValueError("no data for rank 3")
for step in range(10):
    hvd.allreduce(torch.ones(3), name=f"step {step}")
world.Barrier()
