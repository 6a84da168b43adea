# SPDX-License-Identifier: Apache-2.0
"""Whether the CUDA driver and NCCL are in this process after each step."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

import horovod.numpy as hvd


def tell(step: str) -> None:
    maps = Path("/proc/self/maps").read_text()
    print(f"{step}: {'/libcuda.so' in maps} {'/libnccl.so' in maps}", flush=True)


hvd.init()
tell("init")
hvd.allreduce(np.ones(3))
tell("allreduce")
for name in ("libcuda.so.1", "libnccl.so.2"):
    ctypes.CDLL(name)
tell("loaded here")
hvd.shutdown()
