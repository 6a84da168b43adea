# SPDX-License-Identifier: Apache-2.0
"""The caller's half of horovod.run, and horovod.run itself."""

from __future__ import annotations

import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wording
from support.processes import is_alive, wait_until_ended

import horovod
from horovod.runner import job, messages
from horovod.runner.errors import HorovodRankError, RankFailure
from horovod.runner.job import Ended, Output, Result, start_job

TIME_LIMIT = 60  # seconds


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """As if a cell had defined it: a rank cannot import it."""
    function.__module__ = "__main__"
    return function


def events_of(horovodrun: Path, size: int, fn: Callable[..., Any], *args: Any) -> list[job.Event]:
    call = messages.encode_call(by_value(fn), args)
    with start_job([str(horovodrun), "-np", str(size)], call) as started:
        return list(started.events())


def test_results_arrive_by_rank_and_the_end_is_last(horovodrun: Path) -> None:
    def rank_and(text: str) -> tuple[int, str]:
        import os

        print(text, flush=True)
        return int(os.environ["HOROVOD_RANK"]), text

    events = events_of(horovodrun, 2, rank_and, "a")

    assert {event.rank: event.value for event in events if isinstance(event, Result)} == {
        0: (0, "a"),
        1: (1, "a"),
    }
    assert events[-1] == Ended(0)
    printed = b"".join(event.data for event in events if isinstance(event, Output))
    assert sorted(printed.split()) == [b"[0]<stdout>:a", b"[1]<stdout>:a"]


def test_a_call_and_results_of_many_frames_arrive_whole(horovodrun: Path) -> None:
    content = os.urandom(3 << 20)

    def twice(data: bytes) -> bytes:
        return data * 2

    events = events_of(horovodrun, 2, twice, content)

    assert [event.value for event in events if isinstance(event, Result)] == [content * 2] * 2


def test_a_result_of_1_gib_arrives_and_delays_no_heartbeat(horovodrun: Path) -> None:
    def large() -> bytes:
        return bytes(1 << 30)

    # The transfer takes longer than the lease, after which a silent agent is lost.
    command = [str(horovodrun), "-np", "1", "--lease", "3"]
    with start_job(command, messages.encode_call(by_value(large))) as started:
        result, end = list(started.events())

    assert isinstance(result, Result) and len(result.value) == 1 << 30
    assert end == Ended(0)


def test_an_exception_is_an_event_and_the_exit_code_tells_of_it(horovodrun: Path) -> None:
    def fail() -> None:
        raise ValueError("no data")

    events = events_of(horovodrun, 1, fail)

    (failure,) = [event for event in events if isinstance(event, RankFailure)]
    assert (failure.rank, failure.summary) == (0, "ValueError: no data")
    assert events[-1] == Ended(1)


def test_a_launcher_that_takes_no_call_tells_by_its_exit_code() -> None:
    call = messages.encode_call(print, (bytes(8 << 20),))
    program = [sys.executable, "-c", "import sys; sys.exit(2)"]

    with start_job(program, call) as started:
        assert list(started.events()) == [Ended(2)]


def test_leaving_the_block_stops_the_job(horovodrun: Path) -> None:
    def wait() -> None:
        import os
        import time

        print(os.getpid(), flush=True)
        time.sleep(600)

    begun = time.monotonic()
    call = messages.encode_call(by_value(wait))
    with (
        pytest.raises(KeyboardInterrupt),
        start_job([str(horovodrun), "-np", "1"], call) as started,
    ):
        for event in started.events():
            if isinstance(event, Output) and event.stream == "stdout":
                rank = int(event.data.split(b":")[1])
                raise KeyboardInterrupt

    assert started.stop() == 128 + signal.SIGTERM
    assert not is_alive(rank)
    assert time.monotonic() - begun < TIME_LIMIT


def test_the_end_of_the_caller_ends_the_job() -> None:
    program = """
import horovod

def wait():
    import os, time
    print(os.getpid(), os.getppid(), flush=True)
    time.sleep(600)

horovod.run(wait, num_proc=1)
"""
    caller = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert caller.stdout is not None
    rank, agent = map(int, caller.stdout.readline().split(b":")[1].split())
    caller.kill()
    caller.communicate(timeout=TIME_LIMIT)

    wait_until_ended([rank, agent], TIME_LIMIT)


def test_a_frame_above_1_mib_is_refused() -> None:
    with pytest.raises(messages.MessageError, match="1048577"):
        list(job._Outcomes().feed(struct.pack("<iI", 0, (1 << 20) + 1)))


@pytest.mark.parametrize("descriptor", ["", "x", "0", "77"])
def test_a_descriptor_that_is_no_socket_is_refused(horovodrun: Path, descriptor: str) -> None:
    refused = subprocess.run(
        [str(horovodrun), "-np", "1", "true"],
        env={**os.environ, "HOROVOD_CALLER_FD": descriptor},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )

    assert refused.returncode == 2
    assert wording.NO_CALLER.format(descriptor=descriptor) in refused.stderr


# ---- horovod.run --------------------------------------------------------------------------------


def test_run_gives_what_the_function_returns_by_rank(capfd: pytest.CaptureFixture[str]) -> None:
    @by_value
    def sums(first: float, *, second: float) -> tuple[int, float]:
        import torch

        import horovod.torch as hvd

        hvd.init()
        total = hvd.allreduce(torch.tensor([first + hvd.rank()]), op=hvd.Sum)
        print("summed", flush=True)
        return hvd.rank(), total.item() * second

    assert horovod.run(sums, (1.0,), {"second": 2.0}, num_proc=2) == [(0, 6.0), (1, 6.0)]
    assert sorted(capfd.readouterr().out.split()) == [
        "[0]<stdout>:summed",
        "[1]<stdout>:summed",
    ]


def test_run_starts_one_rank_where_nobody_says_how_many() -> None:
    @by_value
    def size() -> str | None:
        import os

        return os.environ["HOROVOD_SIZE"]

    assert horovod.run(size) == ["1"]
    assert horovod.run(size, hosts="localhost:2") == ["2", "2"]


def test_an_exception_of_a_rank_is_raised_with_its_traceback() -> None:
    @by_value
    def fail() -> None:
        import os

        if os.environ["HOROVOD_RANK"] == "1":
            raise ValueError("no data")
        import time

        time.sleep(600)

    with pytest.raises(HorovodRankError, match=r"rank 1 .*: ValueError: no data") as raised:
        horovod.run(fail, num_proc=2)

    assert (raised.value.rank, raised.value.host) == (1, "localhost")
    assert wording.RANKS_EXITED in str(raised.value)
    assert "in fail" in str(raised.value.__cause__)


def test_a_rank_that_ends_without_a_result_is_an_error() -> None:
    @by_value
    def leave(code: int) -> None:
        import os

        if os.environ["HOROVOD_RANK"] == "0":
            os._exit(code)

    with pytest.raises(RuntimeError, match=wording.NO_RESULT.format(rank=0)):
        horovod.run(leave, (0,), num_proc=2)
    culprit = re.escape(wording.culprit(0)) + ".*: " + wording.OF_EXIT.format(code=3)
    ended = wording.pattern(wording.JOB_ENDED_WITH, code=3, why=culprit)
    with pytest.raises(RuntimeError, match=ended):
        horovod.run(leave, (3,), num_proc=2)


def test_an_argument_that_horovodrun_refuses_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=wording.NOT_WHOLE.format(flag="-np", value=0)):
        horovod.run(print, num_proc=0)


def test_run_by_mpirun_moves_functions_and_results_too() -> None:
    @by_value
    def rank_of(data: bytes) -> tuple[int, int]:
        import os

        return int(os.environ["HOROVOD_RANK"]), len(data)

    size = 3 << 20
    assert horovod.run(rank_of, (bytes(size),), num_proc=2, use_mpi=True) == [(0, size), (1, size)]
