# SPDX-License-Identifier: Apache-2.0
"""A rank that tells all others where it stands; rank 0 prints what all said, as JSON.

With `half` hvd.init is given a communicator of every second rank, with `world` that of all. With
`started` MPI has been started before, and the launcher's own ways to meet are hidden."""

import json
import os
import socket
import sys

from horovod.common.basics import HorovodBasics
from horovod.common.objects import allgather_object

given = sys.argv[1] if len(sys.argv) > 1 else ""
comm = None
if given:
    from mpi4py import MPI

    if given == "half":
        comm = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)
    elif given == "world":
        comm = MPI.COMM_WORLD
    for name in ("PMIX_NAMESPACE", "PMI_FD"):
        os.environ.pop(name, None)

hvd = HorovodBasics()
hvd.init(comm=comm)
world = allgather_object(
    {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "local": [hvd.local_rank(), hvd.local_size()],
        "cross": [hvd.cross_rank(), hvd.cross_size()],
        "pid": os.getpid(),
        "job": os.environ.get("OF_JOB"),
        "host": socket.gethostname(),
        "is by mpi": hvd.mpi_enabled(),
    }
)
if hvd.rank() == 0:
    print(json.dumps(world), flush=True)
hvd.shutdown()
