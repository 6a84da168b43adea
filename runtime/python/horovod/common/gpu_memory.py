# SPDX-License-Identifier: Apache-2.0
"""Who uses the memory of the GPUs of this host, for a rank that has run out of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SIGNS = (
    "out of memory",  # PyTorch, CuPy: "CUDA out of memory", "cudaErrorMemoryAllocation: out of ..."
    "CUDA_ERROR_OUT_OF_MEMORY",
    "OOM when allocating",  # TensorFlow
)
_GPU_SIGNS = ("cuda", "gpu")
_PROBE = Path(sys.prefix) / "libexec/horovod/hvd-gpu-probe"
_TIME_LIMIT = 3.0  # seconds: a driver may hang


def is_exhausted(error: BaseException) -> bool:
    """Whether the exception says that a GPU has no memory left."""
    text = f"{type(error).__module__} {type(error).__name__}: {error}"
    is_of_gpu = any(sign in text.lower() for sign in _GPU_SIGNS)
    return is_of_gpu and any(sign in text for sign in _SIGNS)


def describe() -> list[str]:
    """A line for each GPU that this process uses, else for all of the host: how much of it is in
    use, and by which processes. Empty where the driver does not tell."""
    try:
        printed = subprocess.run(
            [_PROBE, "--use"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIME_LIMIT,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    gpus: list[tuple[str, dict[int, int]]] = []  # MIG devices of a GPU have one number
    for kind, number, *fields in (line.split("\t") for line in printed.splitlines()):
        if kind == "use":
            used, total, uuid, name = fields
            gpu = f"{number} ({name}, {uuid}): {_size(used)} of {_size(total)} in use"
            gpus.append((gpu, {}))
        elif kind == "process":
            gpus[-1][1][int(fields[0])] = int(fields[1])
    own = [gpu for gpu in gpus if os.getpid() in gpu[1]]
    return [f"horovod: GPU {gpu}{_users(users)}" for gpu, users in own or gpus]


def _users(users: dict[int, int]) -> str:
    """The largest first. The driver does not tell the memory of a process in every system."""
    said = []
    for pid, used in sorted(users.items(), key=lambda user: -user[1]):
        whose = "this rank" if pid == os.getpid() else _name(pid)
        said.append(f"pid {pid} ({whose})" + (f" {_size(used)}" if used else ""))
    return "".join(f", {words}" for words in said)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "of another user or container"


def _size(text: str | int) -> str:
    return f"{int(text) / (1 << 30):.1f} GiB"
