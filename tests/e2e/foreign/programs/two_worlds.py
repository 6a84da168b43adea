# SPDX-License-Identifier: Apache-2.0
"""A rank that leaves its world and joins the next one; rank 0 says how often that worked."""

from horovod.common.basics import HorovodBasics
from horovod.common.objects import allgather_object

hvd = HorovodBasics()
for round_number in range(2):
    hvd.init()
    assert allgather_object(hvd.rank() + round_number) == [
        rank + round_number for rank in range(hvd.size())
    ]
    if hvd.rank() == 0:
        print("world", round_number, "of", hvd.size(), flush=True)
    hvd.shutdown()
