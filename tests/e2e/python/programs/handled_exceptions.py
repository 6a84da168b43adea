# SPDX-License-Identifier: Apache-2.0
"""Exceptions that end nothing: one that the program prints, one of a thread, one of a child."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy

import horovod.numpy as hvd

CHILD = "import horovod.numpy as hvd; hvd.init(); raise ValueError('of a child')"


def fail() -> None:
    raise ValueError("of a thread")


def main() -> None:
    hvd.init()
    try:
        raise ValueError("handled")
    except ValueError:
        sys.excepthook(*sys.exc_info())
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    child = subprocess.run([sys.executable, "-c", CHILD], env={})
    time.sleep(3)  # longer than a rank may take to end after an exception
    total = hvd.allreduce(numpy.ones(1), op=hvd.Sum)
    print(f"sum {total[0]:.0f} child {child.returncode}", flush=True)


if __name__ == "__main__":
    main()
