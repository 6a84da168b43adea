# SPDX-License-Identifier: Apache-2.0
"""One rank fails in the way that the command line names, while the others wait for it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time

import torch

import horovod.torch as hvd

FAILING_RANK = 1


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
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError(how)


def main() -> None:
    hvd.init()
    hvd.allreduce(torch.ones(10), name="warm")
    if sys.argv[1] == "kill":
        # The launcher asks the others to stop at once; they are to live until they see the error.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if hvd.rank() == FAILING_RANK:
        fail(sys.argv[1])
    begin = time.monotonic()
    try:
        hvd.allreduce(torch.ones(10), name="never")
    except hvd.HorovodInternalError as error:
        print(f"after {time.monotonic() - begin:.3f} s: {error}", flush=True)
        raise


if __name__ == "__main__":
    main()
