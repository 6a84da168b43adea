# SPDX-License-Identifier: Apache-2.0
"""A cgroup with a limit of memory, where the machine lets one be made."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


class MemoryLimit:
    """`with MemoryLimit.make(64 << 20) as limit`: what enters it may have that much together."""

    def __init__(self, folder: Path, counter: str) -> None:
        self.folder = folder
        self._counter = counter

    @classmethod
    @contextlib.contextmanager
    def make(cls, size: int) -> Iterator[MemoryLimit]:
        """OSError, with the reason, where that cannot be done."""
        is_first = (V1 / "memory.limit_in_bytes").exists()
        folder = (V1 if is_first else V2) / f"hvd-test-{os.getpid()}-{time.monotonic_ns()}"
        folder.mkdir()
        try:
            (folder / ("memory.limit_in_bytes" if is_first else "memory.max")).write_text(str(size))
            yield cls(folder, "memory.oom_control" if is_first else "memory.events")
        finally:
            remove(folder)

    def enter(self, pid: int | None = None) -> None:
        """Moves the process, else the caller, into it; its later children follow."""
        (self.folder / "cgroup.procs").write_text(str(pid or os.getpid()))

    def has_peak(self) -> bool:
        """Whether the kernel keeps the most memory that was in use: version 2 since Linux 5.19."""
        names = ("memory.max_usage_in_bytes", "memory.peak")
        return any((self.folder / name).exists() for name in names)

    def kills(self) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        words = (self.folder / self._counter).read_text().split()
        return int(words[words.index("oom_kill") + 1])


def remove(folder: Path) -> None:
    """Once the last of its processes has ended."""
    deadline = time.monotonic() + 10
    while True:
        try:
            folder.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
