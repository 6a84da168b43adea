# SPDX-License-Identifier: Apache-2.0
"""What averages divide by under HOROVOD_AVERAGE_OVER; with `differ` the ranks do not agree."""

from __future__ import annotations

import os
import sys

import torch

import horovod.torch as hvd

differ = "differ" in sys.argv
if differ and os.environ["HOROVOD_RANK"] == "1":
    os.environ["HOROVOD_AVERAGE_OVER"] = "all"
hvd.init()
size, rank = hvd.size(), hvd.rank()
assert hvd.allreduce(torch.full((3,), 2.0), op=hvd.Sum).tolist() == [2.0 * size] * 3
if differ:
    try:
        hvd.allreduce(torch.ones(2), name="differs")
    except hvd.HorovodInternalError as error:
        print("refused:", error)
    sys.exit(0)
for step in range(rank + 1):  # rank r stops after r + 1 steps
    left = range(step, size)
    average = hvd.allreduce(torch.full((2,), float(rank)), name=f"step {step % 2}")
    assert torch.allclose(average, torch.full((2,), sum(left) / len(left))), average
    total = hvd.allreduce(torch.ones(1), op=hvd.Sum)
    assert total.item() == len(left), total
assert hvd.join() == size - 1
assert hvd.allreduce(torch.full((2,), float(rank))).tolist() == [(size - 1) / 2] * 2
print("averaged")
