# SPDX-License-Identifier: Apache-2.0
"""Jobs that are started on the first of several simulated hosts."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from commands import summary_of
from jobs import TIMEOUT, Ended, Running
from support.hosts import Host, Lab
from support.processes import Process, wait_until_none
from terminals import Terminal, terminal_with


class Cluster:
    def __init__(self, lab: Lab, program: Path) -> None:
        self.lab = lab
        self.hosts = lab.hosts
        self.head = lab[0]
        self.program = program

    def run(self, *arguments: object, **options: object) -> Ended:
        with self.start(*arguments, **options) as job:
            return job.end()

    def summary_of(self, job: Ended) -> dict:
        """What the job has told to --summary /root/summary.json."""
        return summary_of(self.head.path("/root/summary.json"), job)

    @contextlib.contextmanager
    def start(
        self,
        *arguments: object,
        user: str = "root",
        folder: str = "/",
        env: dict[str, str] | None = None,
        **options: object,
    ) -> Iterator[Running]:
        """Starts `horovodrun ARGUMENTS` on the first host. What is left of it there is killed."""
        settings: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": self.head.environment(user, **(env or {})),
            **options,
        }
        command = [*self.head.prefix(user, folder), self.program, *map(str, arguments)]
        began = time.monotonic()
        process = subprocess.Popen(command, **settings)
        try:
            yield Running(process, began)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait(TIMEOUT)
            for pipe in (process.stdout, process.stderr):
                pipe.close()

    def in_terminal(
        self, *arguments: object, **options: object
    ) -> contextlib.AbstractContextManager[Terminal]:
        """`horovodrun ARGUMENTS` on the first host, as in `terminal_with`."""
        env = self.head.environment("root", TERM="xterm")
        command = [*self.head.prefix("root", "/"), self.program, *arguments]
        return terminal_with(*command, env=env, **options)

    def left(self) -> list[Process]:
        """What of any job is still there, on all hosts, as the machine's kernel counts."""
        return [one for host in self.hosts for one in host.jobs()]

    def wait_until_clean(
        self, seconds: float, of: Iterable[Host] | None = None, but_for: str = ""
    ) -> None:
        hosts = list(of or self.hosts)
        wait_until_none(
            lambda: [
                (host.name, one) for host in hosts for one in host.jobs() if one.name != but_for
            ],
            seconds,
        )


def slots(hosts: Iterable[Host], each: int = 1) -> str:
    return ",".join(f"{host.name}:{each}" for host in hosts)
