# SPDX-License-Identifier: Apache-2.0
"""One simulated host, seen from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from support.processes import Process, process

from .files import USERS, address, address6

TIMEOUT = 60  # seconds
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Host:
    """Made by a Lab, which has started PID 1 as a child of `keeper`."""

    def __init__(
        self,
        number: int,
        program: Path,
        keeper: subprocess.Popen[bytes],
        links: Callable[[str], None],
    ) -> None:
        self.number = number
        self.name = f"h{number}"
        self.address = address(number)
        self.address6 = address6(number)
        self.folder = Path()
        self._program = program
        self._keeper = keeper
        self._links = links
        self.pid = 0
        self._namespace = ""
        self._at_rest: set[int] = set()

    def began(self, pid: int) -> None:
        """PID 1 is there, as `pid` of the machine."""
        self.pid = pid
        self._namespace = os.readlink(f"/proc/{self._keeper.pid}/ns/pid_for_children")

    def is_up(self) -> None:
        """All that belongs to it at rest is there."""
        self._at_rest = {one.pid for one in self.processes()}

    def prefix(self, user: str = "root", folder: str = "/") -> tuple[str, ...]:
        """Before a command, has it run in this host. Signals to it reach the command, KILL too."""
        uid = str(USERS[user])
        return (str(self._program), "enter", str(self.pid), "all", uid, folder)

    def environment(self, user: str = "root", **more: str) -> dict[str, str]:
        home = "/root" if user == "root" else f"/home/{user}"
        return {
            "HOME": home,
            "USER": user,
            "LOGNAME": user,
            "PATH": PATH,
            "LANG": "C.UTF-8",
            **more,
        }

    def run(
        self, *command: object, user: str = "root", **options: object
    ) -> subprocess.CompletedProcess:
        """Runs the command in this host to its end."""
        settings: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "text": True,
            "timeout": TIMEOUT,
            "env": self.environment(user),
            **options,
        }
        return subprocess.run([*self.prefix(user), *map(str, command)], **settings)

    def path(self, path: str) -> Path:
        """A file of this host, from outside; also after its end."""
        return Path(f"/proc/{self._keeper.pid}/root") / path.lstrip("/")

    def processes(self) -> list[Process]:
        """Every living process of the host, as the machine's kernel counts."""
        found = []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == self._namespace:
                    found.append(process(int(name)))
        return [one for one in found if one is not None and one.is_alive()]

    def jobs(self) -> list[Process]:
        """Its processes but for PID 1 and the sshd that listens: of a host at rest none is left."""
        return [one for one in self.processes() if one.pid not in self._at_rest]

    def find(self, name: str) -> list[Process]:
        """Its processes of that name, the oldest first."""
        return sorted(
            (one for one in self.processes() if one.name == name), key=lambda one: one.pid
        )

    def kill(self) -> None:
        """Ends every process of the host at once. Its kernel closes their connections."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait_for(lambda: not self.processes(), "its end")

    def crash(self) -> None:
        """As at a loss of power: the network hears nothing more."""
        self.cut()
        self.kill()

    def cut(self) -> None:
        self._links(f"link set p{self.number} down")

    def heal(self) -> None:
        self._links(f"link set p{self.number} up")

    def wait_for(self, is_so: Callable[[], bool], what: str, seconds: float = 20) -> float:
        """Returns how long it took."""
        began = time.monotonic()
        while not is_so():
            waited = time.monotonic() - began
            assert waited < seconds, (
                f"{self.name}: {what} not within {seconds} s: {self.processes()}"
            )
            time.sleep(0.01)
        return time.monotonic() - began
