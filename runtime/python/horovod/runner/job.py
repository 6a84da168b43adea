# SPDX-License-Identifier: Apache-2.0
"""A job of horovodrun whose ranks run a function of this process: the caller's half.

    call = messages.encode_call(fn, args, kwargs)
    with start_job(["horovodrun", "-np", "4"], call) as job:
        for event in job.events():
            ...                     # Output, Result, RankFailure, and Ended as the last

`start_job` appends the ranks' command to any command line of horovodrun, one with `--listen` too.
horovodrun inherits a stream socket, whose number is in HOROVOD_CALLER_FD:

    to horovodrun     one call, with its length before it; then the socket stays open, and its end
                      means that the caller has gone, which ends the job
    from horovodrun   frames: rank (i32), size (u32, at most 1 MiB), bytes, all little endian. The
                      bytes of one rank, put together, are messages, each with its length before
                      it; no frame has parts of two
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from horovod.runner import messages
from horovod.runner.errors import RankFailure
from horovod.runner.rank_state import RankState

DESCRIPTOR = "HOROVOD_CALLER_FD"
MAX_FRAME = 1 << 20  # bytes of one rank in one frame
_FRAME = struct.Struct("<iI")
_LENGTH = struct.Struct("<Q")
_STOP_SECONDS = 40.0  # longer than horovodrun waits for ranks that it has asked to stop


@dataclass(frozen=True)
class Output:
    """What horovodrun has printed, its ranks' lines among it, as it comes."""

    stream: str  # "stdout" or "stderr"
    data: bytes


@dataclass(frozen=True)
class Result:
    """What the function returned in a rank."""

    rank: int
    value: Any


@dataclass(frozen=True)
class Ended:
    """The job is over, with the exit code of horovodrun; negative: the signal that ended it."""

    exit_code: int


Event = Output | RankState | Result | RankFailure | Ended


def start_job(
    launcher: Sequence[str],
    call: bytes,
    *,
    executable: str = sys.executable,
    command: Sequence[str] | None = None,
) -> Job:
    """Starts `launcher`, a program and its flags, with ranks that answer `call`. `executable` is
    the ranks' Python; `command` starts them another way."""
    own, of_launcher = socket.socketpair()
    with of_launcher:
        process = subprocess.Popen(
            [*launcher, *(command or (executable, "-m", "horovod.runner.task"))],
            env={**os.environ, DESCRIPTOR: str(of_launcher.fileno())},
            pass_fds=[of_launcher.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupt of the terminal is for the caller to pass on
        )
    return Job(process, own, call)


class Job:
    """A running job. Leaving its `with` block stops it, whatever the reason. One thread uses it."""

    def __init__(
        self, process: subprocess.Popen[bytes], connection: socket.socket, call: bytes
    ) -> None:
        self._process = process
        self._connection = connection
        self._unsent = memoryview(_LENGTH.pack(len(call)) + call)
        self._outcomes = _Outcomes()
        connection.setblocking(False)

    def events(self) -> Iterator[Event]:
        """What happens, until the job has ended. The limits of time are those of horovodrun."""
        with selectors.DefaultSelector() as selector:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            selector.register(self._connection, both, None)
            selector.register(self._process.stdout, selectors.EVENT_READ, "stdout")
            selector.register(self._process.stderr, selectors.EVENT_READ, "stderr")
            while selector.get_map():
                for key, mask in selector.select():
                    if key.data is not None:
                        yield from _read_output(selector, key)
                        continue
                    if mask & selectors.EVENT_WRITE:
                        self._send_call(selector)
                    if mask & selectors.EVENT_READ:
                        yield from self._read_outcomes(selector)
        yield Ended(self._process.wait())

    def terminate(self) -> None:
        """Asks the job to end. Thread: any."""
        self._process.terminate()

    def stop(self) -> int:
        """Ends the job and waits for that. The exit code of horovodrun."""
        self._connection.close()
        if self._process.poll() is None:
            self._process.terminate()
        try:
            # communicate reads the last output, because a full pipe would block horovodrun.
            self._process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _send_call(self, selector: selectors.BaseSelector) -> None:
        try:
            self._unsent = self._unsent[self._connection.send(self._unsent[:MAX_FRAME]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = memoryview(b"")  # horovodrun has gone: its exit code tells the rest
        if not self._unsent:
            selector.modify(self._connection, selectors.EVENT_READ, None)

    def _read_outcomes(self, selector: selectors.BaseSelector) -> Iterator[Event]:
        try:
            received = self._connection.recv(MAX_FRAME)
        except BlockingIOError:
            return
        except ConnectionResetError:
            received = b""
        if not received:
            selector.unregister(self._connection)
        for rank, message in self._outcomes.feed(received):
            outcome = messages.decode_outcome(message)
            is_event = isinstance(outcome, RankFailure | RankState)
            yield outcome if is_event else Result(rank, outcome)


class _Outcomes:
    """Takes frames as they arrive and gives the messages of ranks, each once."""

    def __init__(self) -> None:
        self._frames = bytearray()
        self._of_rank: dict[int, bytearray] = {}

    def feed(self, received: bytes) -> Iterator[tuple[int, bytearray]]:
        self._frames += received
        while len(self._frames) >= _FRAME.size:
            rank, size = _FRAME.unpack_from(self._frames)
            if size > MAX_FRAME:
                raise messages.MessageError(f"a frame of {size} bytes is above {MAX_FRAME}")
            end = _FRAME.size + size
            if len(self._frames) < end:
                return
            content = self._of_rank.setdefault(rank, bytearray())
            content += self._frames[_FRAME.size : end]
            del self._frames[:end]
            if _is_whole(content):
                del self._of_rank[rank]
                del content[: _LENGTH.size]
                yield rank, content


def _is_whole(content: bytearray) -> bool:
    if len(content) < _LENGTH.size:
        return False
    (length,) = _LENGTH.unpack_from(content)
    return len(content) >= _LENGTH.size + length


def _read_output(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> Iterator[Output]:
    data = os.read(key.fd, MAX_FRAME)
    if data:
        yield Output(key.data, data)
    else:
        selector.unregister(key.fileobj)
