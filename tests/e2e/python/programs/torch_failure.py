# SPDX-License-Identifier: Apache-2.0
"""One rank fails in the way that the command line names, while the others wait for it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import horovod.torch as hvd

FAILING_RANK = 1


def kill_self() -> None:
    time.sleep(0.5)  # until the others wait
    print(f"killed at {time.monotonic()}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def fail(how: str) -> None:
    if how == "exception":
        raise KeyError("the reason")
    if how == "replaced-hook":
        sys.excepthook = sys.__excepthook__
        raise KeyError("the reason")
    if how == "slow-exception":  # victims end long before the culprit does
        atexit.register(time.sleep, 5)
        raise KeyError("the reason")
    if how == "exit":
        sys.exit(9)
    if how == "leave":  # in order, but the others still count on it; it ends long after them
        hvd.shutdown()
        time.sleep(5)
        sys.exit(0)
    if how == "kill":
        kill_self()
    if how == "kill-with-workers":  # they are forked from the rank and live on for a while
        data = TensorDataset(torch.zeros(1000, 1))
        batches = iter(DataLoader(data, num_workers=2, persistent_workers=True))
        next(batches)
        kill_self()
    if how == "never":
        time.sleep(3600)
    raise ValueError(how)


def main() -> None:
    hvd.init()
    hvd.allreduce(torch.ones(10), name="warm")
    if sys.argv[1].startswith("kill"):
        # The launcher asks the others to stop at once; they are to live until they see the error.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if hvd.rank() == FAILING_RANK:
        fail(sys.argv[1])
    print("waiting", flush=True)
    try:
        hvd.allreduce(torch.ones(10), name="never")
    except hvd.HorovodInternalError as error:
        print(f"failed at {time.monotonic()}: {error}", flush=True)
        raise


if __name__ == "__main__":
    main()
