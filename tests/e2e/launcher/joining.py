# SPDX-License-Identifier: Apache-2.0
"""A horovodrun that listens, and those that join it."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

ABOUT = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "HOSTNAME")
TELL = ("sh", "-c", "echo " + " ".join(f"$HOROVOD_{name}" for name in ABOUT))


class Meeting:
    """A horovodrun that listens, and those that join it."""

    def __init__(self, launcher, token: Path, stack: contextlib.ExitStack) -> None:
        self._launcher = launcher
        self._stack = stack
        self.token = token
        self.job = None
        self.port = 0

    def listen(self, *arguments: object, **options: object):
        where = ("--listen", "127.0.0.1:0", "--join-token-file", self.token)
        self.job = self._stack.enter_context(self._launcher.start(*where, *arguments, **options))
        said = self.job.wait_for(b"--join-token-file", "err").decode()
        self.port = int(re.search(r" at 127\.0\.0\.1:(\d+);", said).group(1))
        return self.job

    def join(self, name: str, *arguments: object, token: Path | None = None, **options: object):
        flags = ("--join-token-file", token or self.token, "--join-name", name)
        to = ("--join", f"127.0.0.1:{self.port}", *flags)
        return self._stack.enter_context(self._launcher.start(*to, *arguments, **options))


def running(words: str) -> list[int]:
    """The processes of this machine with such a command line."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit():
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found += [int(process.name)] * (words in command and "horovodrun" not in command)
    return found


def wait_until_gone(words: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := running(words):
        assert time.monotonic() < deadline, f"left after {seconds} s: {left}"
        time.sleep(0.02)
