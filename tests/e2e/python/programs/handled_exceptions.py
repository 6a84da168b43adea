# SPDX-License-Identifier: Apache-2.0
"""Exceptions that end nothing: one that the program prints, those of threads and of children."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy

import horovod.numpy as hvd

# It is alone in its world, and reports its exception to the agent of its parent.
CHILD = "import horovod.numpy as hvd; hvd.init(); raise ValueError('of a child')"
ALONE = {**os.environ, "HOROVOD_LAUNCHER": "none"}


def fail() -> None:
    raise ValueError("of a thread")


def run_thread() -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


def print_as_uncaught(args: threading.ExceptHookArgs) -> None:
    sys.excepthook(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)


def run_child() -> int:
    return subprocess.run([sys.executable, "-c", CHILD], env=ALONE, check=False).returncode


def main() -> None:
    before = run_child()
    hvd.init()
    try:
        raise ValueError("handled")
    except ValueError:
        sys.excepthook(*sys.exc_info())
    run_thread()
    threading.excepthook = print_as_uncaught
    run_thread()
    after = run_child()
    time.sleep(5)  # longer than a rank may take to end after an exception, also below a wrapper
    total = hvd.allreduce(numpy.ones(1), op=hvd.Sum)
    print(f"sum {total[0]:.0f} children {before} {after}", flush=True)


if __name__ == "__main__":
    main()
