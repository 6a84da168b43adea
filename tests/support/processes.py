# SPDX-License-Identifier: Apache-2.0
"""The process table, as /proc shows it to the caller. Zombies have no command line."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    state: str  # as in proc(5): R, S, D, T, Z, ...
    parent: int
    command: tuple[str, ...]

    def is_alive(self) -> bool:
        return self.state not in "ZX"

    def reads_signals(self) -> bool:
        """Whether it has got so far that it reads SIGTERM from a descriptor, instead of ending."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        blocked = int(status.split("SigBlk:")[1].split()[0], 16)
        return bool(blocked & 1 << (signal.SIGTERM - 1))

    def environment(self) -> bytes:
        """Its variables, each ended by a NUL; none of a process that has ended or is not ours."""
        return _read(self.pid, "environ") or b""

    def shows(self, words: Iterable[bytes]) -> bool:
        """Whether one of the words is in its command line or environment."""
        shown = (_read(self.pid, "cmdline") or b"") + self.environment()
        return any(word in shown for word in words)


def _read(pid: int, file: str) -> bytes | None:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return None


def process(pid: int) -> Process | None:
    """None once its parent has taken its exit status."""
    text, command = _read(pid, "stat"), _read(pid, "cmdline")
    if text is None or command is None:
        return None
    name = text[text.index(b"(") + 1 : text.rindex(b")")]
    state, parent = text[text.rindex(b")") + 2 :].split()[:2]
    words = tuple(os.fsdecode(word) for word in command.split(b"\0")[:-1])
    return Process(pid, os.fsdecode(name), state.decode(), int(parent), words)


def is_alive(pid: int) -> bool:
    one = process(pid)
    return one is not None and one.is_alive()


def state_of(pid: int) -> str:
    """Its state in proc(5), or "" when there is no such process."""
    one = process(pid)
    return one.state if one else ""


def table() -> list[Process]:
    """All processes, the lowest pid first."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    return [one for pid in pids if (one := process(pid)) is not None]


def alive(is_one: Callable[[Process], bool]) -> list[Process]:
    """The living processes but for the caller that `is_one` accepts."""
    return [one for one in table() if one.is_alive() and one.pid != os.getpid() and is_one(one)]


def children_of(pid: int) -> list[Process]:
    return [one for one in table() if one.parent == pid]


def showing(words: Iterable[bytes]) -> list[Process]:
    """The processes with one of the words in their command line or environment."""
    words = list(words)
    return [one for one in table() if one.shows(words)]


def below(pid: int) -> list[Process]:
    """All descendants, parents before their children."""
    rows = table()
    family = [pid]
    found: list[Process] = []
    for member in family:
        children = [one for one in rows if one.parent == member]
        found += children
        family += [one.pid for one in children]
    return found


def wait_until_none(left: Callable[[], object], seconds: float) -> None:
    """Until `left()` is empty; it is shown when it is not so in time."""
    deadline = time.monotonic() + seconds
    while rest := left():
        assert time.monotonic() < deadline, f"left after {seconds} s: {rest}"
        time.sleep(0.02)


def wait_until_ended(pids: Iterable[int], seconds: float) -> None:
    pids = list(pids)
    wait_until_none(lambda: [pid for pid in pids if is_alive(pid)], seconds)
