# SPDX-License-Identifier: Apache-2.0
"""A horovodrun that listens, and those that join it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import wording
from support.processes import Process, alive, wait_until_none

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
        address = wording.pattern(wording.AT_ADDRESS, address=r"127\.0\.0\.1:(\d+)")
        self.port = int(re.search(address, said).group(1))
        return self.job

    def join(self, name: str, *arguments: object, token: Path | None = None, **options: object):
        flags = ("--join-token-file", token or self.token, "--join-name", name)
        to = ("--join", f"127.0.0.1:{self.port}", *flags)
        return self._stack.enter_context(self._launcher.start(*to, *arguments, **options))


def running(words: str) -> list[Process]:
    """The processes of this machine with such a command line."""
    return alive(lambda one: words in " ".join(one.command) and one.name != "horovodrun")


def wait_until_gone(words: str, seconds: float) -> None:
    wait_until_none(lambda: running(words), seconds)
