# SPDX-License-Identifier: Apache-2.0
"""The trace of rank 0 that the original's flags and variables ask for."""

from __future__ import annotations

import json
import sys

import pytest

TRAIN = """
import numpy
import horovod.numpy as hvd

hvd.init()
for _ in range(3):
    hvd.allreduce(numpy.ones(4, numpy.float32), name="grad")
hvd.shutdown()
"""


@pytest.fixture
def trace_of(launcher, tmp_path):
    """trace_of(flags, variables): the events of such a job's trace, and where it is."""
    pytest.importorskip("numpy", reason="NumPy is not installed")
    file = tmp_path / "trace.json"

    def events(*flags: object, **variables: str):
        job = launcher.run("-np", 2, *flags, sys.executable, "-c", TRAIN, env=variables)
        assert job.code == 0, job
        assert sorted(tmp_path.iterdir()) == [file]  # of rank 0 alone
        return json.loads(file.read_text())

    events.file = file
    return events


def count(events: list[dict], name: str) -> int:
    return sum(event.get("name") == name for event in events)


def asked_for(way: str, file, marks: bool) -> tuple[tuple[object, ...], dict[str, str]]:
    if way == "flag":
        return ("--timeline-filename", file, *(["--timeline-mark-cycles"] if marks else [])), {}
    mark = {"HOROVOD_TIMELINE_MARK_CYCLES": "1"} if marks else {}
    return (), {"HOROVOD_TIMELINE": str(file), **mark}


@pytest.mark.parametrize("marks", [False, True], ids=["plain", "cycles"])
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_a_job_leaves_a_trace_with_the_originals_names(trace_of, way, marks):
    flags, variables = asked_for(way, trace_of.file, marks)

    events = trace_of(*flags, **variables)

    about = [event["args"] for event in events if event.get("name") == "process_name"]
    assert [each["name"] for each in about if "name" in each] == ["allreduce.grad"]
    assert [each["rank"] for each in about if "rank" in each] == [0]
    assert count(events, "NEGOTIATE_ALLREDUCE") == count(events, "ALLREDUCE") == 3
    assert count(events, "SHM_ALLREDUCE") == 3
    assert (count(events, "CYCLE_START") > 0) == marks
    begun = sum(event.get("ph") == "B" for event in events)
    assert begun == sum(event.get("ph") == "E" for event in events)
