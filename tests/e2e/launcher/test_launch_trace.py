# SPDX-License-Identifier: Apache-2.0
"""--launch-trace: where the time of a start went."""

from __future__ import annotations

import json

import wording


def slices(path) -> list[dict]:
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def test_the_trace_has_the_steps_and_every_rank(launcher, tmp_path):
    file = tmp_path / "trace.json"

    job = launcher.run("-np", 3, "--launch-trace", file, "--verbose", "true")

    assert job.code == 0
    found = slices(file)
    of_the_job = [event["name"] for event in found if (event["pid"], event["tid"]) == (0, 1)]
    assert of_the_job == ["link", "plan", "start"]
    ranks = sorted(event["name"] for event in found if event["pid"] == 1 and event["tid"] > 1)
    assert ranks == ["rank 0", "rank 1", "rank 2"]
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in found)
    (said,) = [line for line in job.said if wording.START_TOOK in line]
    assert wording.LAST_RANK in said


def test_the_trace_is_there_while_the_job_runs(launcher, tmp_path):
    file = tmp_path / "trace.json"

    with launcher.start("-np", 1, "--launch-trace", file, "sh", "-c", "echo up; sleep 60") as job:
        job.wait_for(b"up")
        job.wait_until(file.exists, "trace")
        assert slices(file)
        job.signal(15)
        job.end()


def test_a_start_that_fails_leaves_a_trace_too(launcher, tmp_path):
    file = tmp_path / "trace.json"

    job = launcher.run("-np", 1, "--launch-trace", file, "no-such-program")

    assert job.code == 127
    assert [event["name"] for event in slices(file)][:2] == ["link", "plan"]


def test_a_place_that_cannot_be_written_is_known_before_the_start(launcher, tmp_path):
    file = tmp_path / "no" / "trace.json"

    job = launcher.run("-np", 1, "--launch-trace", file, "echo", "ran")

    assert (job.code, job.out) == (2, b"")
    missing = {"file": file, "why": "No such file or directory"}
    assert job.said == [wording.line(wording.NO_TRACE, **missing)]


def test_a_trace_that_cannot_be_written_is_in_the_log_too(launcher, tmp_path):
    flags = ("--launch-trace", "/dev/full", "--output-filename", tmp_path)

    for command, code in (("true", 0), ("no-such-program", 127)):
        job = launcher.run("-np", 1, *flags, command)

        assert job.code == code
        (said,) = [line for line in job.said if "--launch-trace" in line]
        full = {"file": "/dev/full", "why": "No space left on device"}
        assert said.endswith(wording.NO_TRACE.format(**full))
        assert (tmp_path / "launcher.log").read_text().count(f"Z {said}\n") == 1
