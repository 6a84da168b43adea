# SPDX-License-Identifier: Apache-2.0
"""Rank 1 fails in the way of argv[1] while the others wait for it: in a graph, or in eager code."""

from __future__ import annotations

import os
import signal
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import tensorflow as tf

import horovod.tensorflow as hvd

hvd.init()
reduce = hvd.allreduce if hvd.rank() == 0 else tf.function(hvd.allreduce)
reduce(tf.constant(1.0), name="together")
if hvd.rank() == 1:
    time.sleep(3)  # the others are waiting by now
    if sys.argv[1] == "exit":
        os._exit(9)
    raise KeyError("the reason")
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what it says is wanted, not only its end
try:
    reduce(tf.constant(1.0), name="alone")
except tf.errors.AbortedError as error:
    print("lost:", str(error).replace("\n", " "), flush=True)
    raise
