# SPDX-License-Identifier: Apache-2.0
"""The caller's half of horovod.run, against a program that speaks as horovodrun does."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from ranks import PROGRAMS

from horovod.runner import job, messages
from horovod.runner.errors import RankFailure
from horovod.runner.job import Ended, Output, Result, start_job


def launcher(size: int) -> list[str]:
    return [sys.executable, str(PROGRAMS / "caller_protocol.py"), str(size)]


def events_of(size: int, fn: Callable[..., Any], *args: Any) -> list[job.Event]:
    fn.__module__ = "__main__"  # as if a cell had defined it
    with start_job(launcher(size), messages.encode_call(fn, args)) as started:
        return list(started.events())


def test_results_arrive_by_rank_and_the_end_is_last() -> None:
    def rank_and(text: str) -> tuple[int, str]:
        import os

        return int(os.environ["HOROVOD_RANK"]), text

    events = events_of(2, rank_and, "a")

    assert {event.rank: event.value for event in events if isinstance(event, Result)} == {
        0: (0, "a"),
        1: (1, "a"),
    }
    assert events[-1] == Ended(0)
    printed = [event.data for event in events if isinstance(event, Output)]
    assert b"".join(printed) == b"started\n"


def test_a_call_and_results_of_many_frames_arrive_whole() -> None:
    content = os.urandom(3 << 20)

    def twice(data: bytes) -> bytes:
        return data * 2

    events = events_of(2, twice, content)

    assert [event.value for event in events if isinstance(event, Result)] == [content * 2] * 2


def test_an_exception_is_an_event_and_the_exit_code_tells_of_it() -> None:
    def fail() -> None:
        raise ValueError("no data")

    events = events_of(1, fail)

    (failure,) = [event for event in events if isinstance(event, RankFailure)]
    assert (failure.rank, failure.summary) == (0, "ValueError: no data")
    assert events[-1] == Ended(1)


def test_a_launcher_that_takes_no_call_tells_by_its_exit_code() -> None:
    call = messages.encode_call(print, (bytes(8 << 20),))
    program = [sys.executable, "-c", "import sys; sys.exit(2)"]

    with start_job(program, call) as started:
        assert list(started.events()) == [Ended(2)]


def test_leaving_the_block_stops_the_job() -> None:
    program = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    begun = time.monotonic()

    with pytest.raises(KeyboardInterrupt), start_job(program, b"") as started:
        next(started.events())
        raise KeyboardInterrupt

    assert started.stop() == -15
    assert time.monotonic() - begun < 30


def test_a_frame_above_1_mib_is_refused() -> None:
    with pytest.raises(messages.MessageError, match="1048577"):
        list(job._Outcomes().feed(struct.pack("<iI", 0, (1 << 20) + 1)))
