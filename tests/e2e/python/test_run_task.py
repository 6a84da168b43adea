# SPDX-License-Identifier: Apache-2.0
"""The rank's half of horovod.run: `python -m horovod.runner.task` over a socket pair."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from horovod.runner import messages
from horovod.runner.errors import MPIRUN_FAILED, RankFailure, RemoteTraceback, rank_error

TIME_LIMIT = 60  # seconds


def answer(call: bytes) -> tuple[Any, subprocess.CompletedProcess[bytes]]:
    """Starts a rank, sends it `call`; the outcome it sends back, and how it ended."""
    own, of_rank = socket.socketpair()
    own.settimeout(TIME_LIMIT)
    environment = {
        **os.environ,
        "HOROVOD_TASK_FD": str(of_rank.fileno()),
        "HOROVOD_RANK": "3",
        "HOROVOD_HOSTNAME": "node3",
    }
    command = [sys.executable, "-m", "horovod.runner.task"]
    process = subprocess.Popen(
        command, env=environment, pass_fds=[of_rank.fileno()], stderr=subprocess.PIPE
    )
    of_rank.close()
    try:
        with own, own.makefile("rwb") as stream:
            messages.send(stream, call)
            outcome = messages.decode_outcome(messages.receive(stream))
        _, stderr = process.communicate(timeout=TIME_LIMIT)
    finally:
        process.kill()
        process.wait()
    return outcome, subprocess.CompletedProcess(command, process.returncode, b"", stderr)


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """As if a cell had defined it: a rank cannot import it."""
    function.__module__ = "__main__"
    return function


def test_a_function_runs_with_its_arguments() -> None:
    @by_value
    def describe(first: int, *, second: str) -> tuple[int, str]:
        return first + 1, second * 2

    outcome, rank = answer(messages.encode_call(describe, (1,), {"second": "ab"}))

    assert outcome == (2, "abab")
    assert rank.returncode == 0, rank.stderr


def test_a_result_of_many_frames_arrives_whole() -> None:
    @by_value
    def large(size: int) -> bytes:
        return bytes(range(256)) * (size // 256)

    outcome, rank = answer(messages.encode_call(large, (8 << 20,)))

    assert outcome == bytes(range(256)) * (32 << 10)
    assert rank.returncode == 0, rank.stderr


def test_an_exception_arrives_as_text_and_fails_the_rank() -> None:
    @by_value
    def no_data() -> None:
        raise ValueError("no data")

    outcome, rank = answer(messages.encode_call(no_data))

    assert (outcome.rank, outcome.host) == (3, "node3")
    assert outcome.summary == "ValueError: no data"
    assert "in no_data" in outcome.traceback
    assert "horovod/runner/task.py" not in outcome.traceback
    assert rank.returncode == 1
    assert b"ValueError: no data" in rank.stderr


def test_a_value_that_cannot_be_pickled_is_an_error() -> None:
    @by_value
    def lock() -> Any:
        import threading

        return threading.Lock()

    outcome, _ = answer(messages.encode_call(lock))

    assert isinstance(outcome, RankFailure)
    assert "lock" in outcome.summary


def test_another_python_is_an_error_before_anything_is_unpickled() -> None:
    call = struct.pack("<4sBB", b"hvdc", 2, 7) + b"no pickle"

    outcome, rank = answer(call)

    assert "comes from Python 2.7" in outcome.summary
    assert "executable=" in outcome.summary
    assert rank.returncode == 1


def test_children_of_the_function_do_not_get_the_connection() -> None:
    @by_value
    def is_open_in_child() -> int:
        import os
        import subprocess

        path = f"/proc/self/fd/{os.environ['HOROVOD_TASK_FD']}"
        return subprocess.call(["test", "-e", path], close_fds=False)

    outcome, _ = answer(messages.encode_call(is_open_in_child))

    assert outcome == 1


def test_a_connection_that_ends_early_is_an_error() -> None:
    own, other = socket.socketpair()
    with own, other, own.makefile("rwb") as stream:
        other.sendall(struct.pack("<Q", 10) + b"half")
        other.close()
        with pytest.raises(messages.MessageError, match="after 4 of 10 bytes"):
            messages.receive(stream)


def test_an_outcome_of_another_kind_is_refused_and_not_unpickled() -> None:
    with pytest.raises(messages.MessageError):
        messages.decode_outcome(b"\2" + cloudpickle.dumps(1))


def failure(rank: int, summary: str) -> RankFailure:
    return RankFailure(rank, "node", summary, f"Traceback of {rank}\n{summary}\n")


def test_equal_exceptions_are_folded() -> None:
    error = rank_error(
        [failure(2, "E: a"), failure(3, "E: b"), failure(1, "E: a"), failure(0, "E: a")]
    )

    assert (error.rank, error.host) == (2, "node")
    first, second = str(error).splitlines()
    assert "Horovod detected that one or more processes exited" in first
    assert first.endswith("rank 2 (host node) and, alike, ranks 0,1: E: a")
    assert second == "rank 3 (host node): E: b"


def test_the_cause_shows_the_traceback_of_the_rank() -> None:
    error = rank_error([failure(1, "E: a")], MPIRUN_FAILED)

    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "mpirun failed" in str(error)
    assert "Traceback of 1" in "".join(traceback.format_exception(error))


def test_the_error_of_a_rank_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(rank_error([failure(1, "E: a")])))

    assert (error.rank, error.host) == (1, "node")
    assert "rank 1 (host node): E: a" in str(error)
