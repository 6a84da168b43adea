# SPDX-License-Identifier: Apache-2.0
"""A rank that tells all others where it stands; rank 0 prints what all said, as JSON."""

import json
import os
import socket

from horovod.common.basics import HorovodBasics
from horovod.common.objects import allgather_object

hvd = HorovodBasics()
hvd.init()
world = allgather_object(
    {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "local": [hvd.local_rank(), hvd.local_size()],
        "cross": [hvd.cross_rank(), hvd.cross_size()],
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
)
if hvd.rank() == 0:
    print(json.dumps(world), flush=True)
hvd.shutdown()
