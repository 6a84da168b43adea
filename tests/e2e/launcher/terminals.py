# SPDX-License-Identifier: Apache-2.0
"""A user in front of a terminal: a shell runs there, and in it the command of a test."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping

from jobs import TIMEOUT
from support.processes import children_of, wait_until_none

# With job control, as a person's shell has it. It reads a line at the end of its command, so that
# the terminal still has a session then.
_SHELL = ("sh", "-mc", '"$@"; echo "code=$?"; read line; fg; echo "code=$?"', "sh")


class Terminal:
    def __init__(self, pid: int, master: int) -> None:
        self.shell = pid
        self.master = master
        self.shown = b""
        self.modes_before = termios.tcgetattr(master)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, text: bytes) -> bytes:
        """Reads until `text` is there; gives what has been shown since the last call."""
        deadline = time.monotonic() + TIMEOUT
        while text not in self.shown:
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} within {TIMEOUT} s, but {self.shown!r}"
            try:
                self.shown += os.read(self.master, 4096)
            except OSError:  # nobody has the terminal open
                raise AssertionError(f"no {text!r}, but {self.shown!r}") from None
        end = self.shown.index(text) + len(text)
        shown, self.shown = self.shown[:end], self.shown[end:]
        return shown

    def wait_for_code(self) -> int:
        self.wait_for(b"code=")
        return int(self.wait_for(b"\n"))

    def is_raw(self) -> bool:
        """Whether each key is a byte for who reads, Ctrl-C too."""
        return not termios.tcgetattr(self.master)[3] & (termios.ISIG | termios.ICANON)

    def wait_until(self, raw: bool) -> None:
        wait_until_none(lambda: self.is_raw() != raw, TIMEOUT)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.master) == self.modes_before

    def wait_until_as_before(self, seconds: float = 5) -> None:
        wait_until_none(
            lambda: [] if self.is_as_before() else [termios.tcgetattr(self.master)],
            seconds,
        )

    def program(self) -> int:
        """The process number of the command that the shell has started."""
        (child,) = children_of(self.shell)
        return child.pid


@contextlib.contextmanager
def terminal_with(
    *command: object,
    rows: int = 24,
    columns: int = 80,
    env: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """Runs the command in a terminal of its own. What is left of its group is killed in the end."""
    words = [*_SHELL, *map(str, command)]
    pid, master = pty.fork()
    if pid == 0:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.execvpe(words[0], words, dict(env or os.environ))
    try:
        yield Terminal(pid, master)
    finally:
        for child in children_of(pid):
            os.kill(child.pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)
