# SPDX-License-Identifier: Apache-2.0
"""The rank's half of horovod.run: `python -m horovod.runner.task` in a job of one rank."""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import wording

from horovod.runner import messages
from horovod.runner.errors import MPIRUN_FAILED, RankFailure, RemoteTraceback, rank_error
from horovod.runner.job import Ended, Output, Result, start_job

Answer = Callable[[bytes], tuple[Any, int, bytes]]


@pytest.fixture
def answer(horovodrun: Path) -> Answer:
    """answer(call): the outcome of a rank, its exit code, and its standard error."""

    def run(call: bytes) -> tuple[Any, int, bytes]:
        with start_job([str(horovodrun), "-np", "1"], call) as job:
            events = list(job.events())
        (outcome,) = [event for event in events if isinstance(event, Result | RankFailure)]
        (ended,) = [event for event in events if isinstance(event, Ended)]
        printed = [event for event in events if isinstance(event, Output)]
        stderr = b"".join(event.data for event in printed if event.stream == "stderr")
        value = outcome.value if isinstance(outcome, Result) else outcome
        return value, ended.exit_code, stderr

    return run


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """As if a cell had defined it: a rank cannot import it."""
    function.__module__ = "__main__"
    return function


def test_a_function_runs_with_its_arguments(answer: Answer) -> None:
    @by_value
    def describe(first: int, *, second: str) -> tuple[int, str]:
        return first + 1, second * 2

    outcome, exit_code, stderr = answer(messages.encode_call(describe, (1,), {"second": "ab"}))

    assert outcome == (2, "abab")
    assert exit_code == 0, stderr


def test_a_result_of_many_frames_arrives_whole(answer: Answer) -> None:
    @by_value
    def large(size: int) -> bytes:
        return bytes(range(256)) * (size // 256)

    outcome, exit_code, stderr = answer(messages.encode_call(large, (8 << 20,)))

    assert outcome == bytes(range(256)) * (32 << 10)
    assert exit_code == 0, stderr


def test_an_exception_arrives_as_text_and_fails_the_rank(answer: Answer) -> None:
    @by_value
    def no_data() -> None:
        raise ValueError("no data")

    outcome, exit_code, stderr = answer(messages.encode_call(no_data))

    assert (outcome.rank, outcome.host) == (0, "localhost")
    assert outcome.summary == "ValueError: no data"
    assert "in no_data" in outcome.traceback
    assert "horovod/runner/task.py" not in outcome.traceback
    assert exit_code == 1
    assert b"ValueError: no data" in stderr
    assert b"horovod/runner/task.py" not in stderr


def test_a_value_that_cannot_be_pickled_is_an_error(answer: Answer) -> None:
    @by_value
    def lock() -> Any:
        import threading

        return threading.Lock()

    outcome, _, _ = answer(messages.encode_call(lock))

    assert isinstance(outcome, RankFailure)
    assert "lock" in outcome.summary


def test_another_python_is_an_error_before_anything_is_unpickled(answer: Answer) -> None:
    call = struct.pack("<4sBBB", b"hvdc", 2, 7, 0) + b"no pickle"

    outcome, exit_code, _ = answer(call)

    assert "comes from Python 2.7" in outcome.summary
    assert "executable=" in outcome.summary
    assert exit_code == 1


def test_the_exit_code_of_the_function_is_that_of_the_rank(answer: Answer) -> None:
    @by_value
    def leave() -> None:
        import sys

        sys.exit(7)

    outcome, exit_code, _ = answer(messages.encode_call(leave))

    assert outcome.summary == "SystemExit: 7"
    assert exit_code == 7


def test_children_of_the_function_do_not_get_the_connection(answer: Answer) -> None:
    @by_value
    def sockets_of_child() -> str:
        import subprocess

        command = "ls -l /proc/self/fd | grep -c socket:"
        return subprocess.run(
            command, shell=True, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        ).stdout.decode()

    outcome, _, _ = answer(messages.encode_call(sockets_of_child))

    assert outcome == "0\n"


@pytest.mark.parametrize(
    ("flags", "words"),
    [([], "horovod.run starts this module"), (["horovodrun"], "after 0 of 8 bytes")],
    ids=["bare", "horovodrun"],
)
def test_the_module_started_by_hand_says_so(horovodrun: Path, flags: list[str], words: str) -> None:
    command = [str(horovodrun), "-np", "1"] if flags else []
    alone = subprocess.run(
        [*command, sys.executable, "-m", "horovod.runner.task"],
        env={key: value for key, value in os.environ.items() if not key.startswith("HOROVOD_")},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert alone.returncode == 1
    assert words in alone.stderr


def test_a_connection_that_ends_early_is_an_error() -> None:
    own, other = socket.socketpair()
    with own, other, own.makefile("rwb") as stream:
        other.sendall(struct.pack("<Q", 10) + b"half")
        other.close()
        with pytest.raises(messages.MessageError, match="after 4 of 10 bytes"):
            messages.receive(stream)


def test_an_outcome_of_another_kind_is_refused_and_not_unpickled() -> None:
    with pytest.raises(messages.MessageError):
        messages.decode_outcome(b"\3" + cloudpickle.dumps(1))


def failure(rank: int, summary: str) -> RankFailure:
    return RankFailure(rank, "node", summary, f"Traceback of {rank}\n{summary}\n")


def test_equal_exceptions_are_folded() -> None:
    error = rank_error(
        [failure(2, "E: a"), failure(3, "E: b"), failure(1, "E: a"), failure(0, "E: a")]
    )

    assert (error.rank, error.host) == (2, "node")
    first, second = str(error).splitlines()
    assert wording.RANKS_EXITED in first
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
