# SPDX-License-Identifier: Apache-2.0
"""A console in the middle of a training. What fails in it ends nothing."""

from __future__ import annotations

import code
import time

import numpy

import horovod.numpy as hvd

hvd.init()
if hvd.rank() == 0:
    code.interact(banner="", exitmsg="", local={"hvd": hvd})
time.sleep(5)  # longer than a rank may take to end after an exception
total = hvd.allreduce(numpy.ones(1), op=hvd.Sum)
print(f"sum {total[0]:.0f}", flush=True)
