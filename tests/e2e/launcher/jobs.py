# SPDX-License-Identifier: Apache-2.0
"""Jobs as values: what was printed, how they ended, and how long that took."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from commands import Ended

# How a process ended that is no child of who asks is kept by Linux since 6.15 (PIDFD_GET_INFO).
KEEPS_ENDS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 15)

TIMEOUT = 60  # seconds; a loaded machine may be slow, a hanging one is found


class Running:
    """A job under way. Its output is read as it comes, unless the test does not want that."""

    def __init__(self, process: subprocess.Popen[bytes], began: float) -> None:
        """`began`: when it was started, or was about to be, as time.monotonic tells it."""
        self.process = process
        self.began = began
        self.text = {"out": bytearray(), "err": bytearray()}

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait_for(self, text: bytes, stream: str = "out") -> bytes:
        """Reads until `text` is there. A job that ends without it fails the test."""
        self.wait_until(lambda: text in self.text[stream], f"{text!r} in {stream}")
        assert text in self.text[stream], self.text
        return bytes(self.text[stream])

    def end(self) -> Ended:
        self.wait_until(lambda: False, "its end")
        code = self.process.wait(TIMEOUT)
        seconds = time.monotonic() - self.began
        return Ended(code, bytes(self.text["out"]), bytes(self.text["err"]), seconds)

    def wait_until(self, is_enough: Callable[[], bool], what: str) -> None:
        """Reads until that is so, or until the end. What no output announces is looked at again and
        again."""
        deadline = time.monotonic() + TIMEOUT
        with selectors.DefaultSelector() as selector:
            for name in ("out", "err"):
                pipe = getattr(self.process, "std" + name)
                if pipe is not None and not pipe.closed:
                    selector.register(pipe, selectors.EVENT_READ, name)
            while not is_enough() and selector.get_map():
                left = deadline - time.monotonic()
                assert left > 0, f"no {what} within {TIMEOUT} s, but {self.text}"
                for key, _ in selector.select(min(left, 0.05)):
                    data = os.read(key.fd, 1 << 20)
                    self.text[key.data] += data
                    if not data:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()


class Launcher:
    def __init__(self, program: Path) -> None:
        self.program = program

    def command(self, *arguments: object) -> list[str]:
        return [str(self.program), *map(str, arguments)]

    def run(self, *arguments: object, **options: object) -> Ended:
        with self.start(*arguments, **options) as job:
            return job.end()

    @contextlib.contextmanager
    def start(
        self,
        *arguments: object,
        prefix: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        **options: object,
    ) -> Iterator[Running]:
        """Starts `horovodrun ARGUMENTS`. What is left of it is killed when the block ends."""
        settings: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": {**os.environ, **(env or {})},
            **options,
        }
        began = time.monotonic()
        process = subprocess.Popen([*prefix, *self.command(*arguments)], **settings)
        try:
            yield Running(process, began)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait(TIMEOUT)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def only_rank(rank: int, script: str, others: str = "sleep 60") -> tuple[str, ...]:
    """A command for /bin/sh in which one rank does something else than the others."""
    return (
        "sh",
        "-c",
        f'if [ "$HOROVOD_RANK" = {rank} ]; then {script}; else {others}; fi',
    )
