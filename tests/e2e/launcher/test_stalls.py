# SPDX-License-Identifier: Apache-2.0
"""Real ranks of which one keeps the others waiting: what is said of it, and when the job ends."""

from __future__ import annotations

import re
import sys

import pytest
import wording
from commands import summary_of

# The variables of the flags.
VARIABLES = {
    "--stall-check-warning-time-seconds": "HOROVOD_STALL_CHECK_TIME_SECONDS",
    "--stall-check-shutdown-time-seconds": "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
}
LATE = """
import sys, time
import numpy
import horovod.numpy as hvd

hvd.init()
data = numpy.ones(4, numpy.float32)
hvd.allreduce(data, name="warm")
if hvd.rank() == 1:
    time.sleep(float(sys.argv[1]))
hvd.allreduce(data, name="grad")
print("done", flush=True)
hvd.shutdown()
"""


@pytest.fixture(params=["shm", "tcp"])
def run(request, launcher, tmp_path):
    """run(seconds, flags): a job whose rank 1 is late by so many seconds, and its summary."""
    pytest.importorskip("numpy", reason="NumPy is not installed")
    transport = {"HOROVOD_CPU_OPERATIONS": "tcp"} if request.param == "tcp" else {}

    def run_late(seconds: float, *flags: object, **variables: str):
        summary = tmp_path / "summary.json"
        flags = ("-np", 3, "--bind-to", "none", "--summary", summary, *flags)
        program = (sys.executable, "-c", LATE, seconds)
        job = launcher.run(*flags, *program, env=transport | variables)
        return job, summary_of(summary, job)

    return run_late


WAITED = re.compile(
    wording.pattern(
        wording.STALL, ranks="0,2", seconds=r"\d\.\d", tensor=r"allreduce\.grad", rank=1
    )
)


@pytest.mark.parametrize("by", ["flags", "variables"])
def test_the_rank_that_others_wait_for_too_long_is_the_culprit(run, by):
    limits = dict(zip(VARIABLES, ("1", "2"), strict=True))
    if by == "flags":
        job, summary = run(50, *(word for pair in limits.items() for word in pair))
    else:
        job, summary = run(50, **{VARIABLES[flag]: value for flag, value in limits.items()})

    assert (job.code, summary["reason"]) == (1, "stalled"), job
    assert job.seconds < 20
    assert summary["culprit"]["rank"] == 1, summary
    assert [rank["class"] for rank in summary["ranks"]][1] == "culprit"
    assert wording.culprit(1) in job.stderr
    assert len(WAITED.findall(job.stderr)) >= 1, job
    assert (
        wording.STALLED_FOR.format(tensor="allreduce.grad", rank=1) in summary["culprit"]["message"]
    ), summary


def test_a_rank_that_is_late_is_one_line_and_no_failure(run):
    job, _ = run(1.8, "--stall-check-warning-time-seconds", 1)

    assert job.code == 0, job
    assert len(WAITED.findall(job.stderr)) == 1, job
    assert sorted(job.lines) == [f"[{rank}]<stdout>:done" for rank in range(3)]


def test_without_the_check_nobody_says_anything(run):
    job, _ = run(1.8, "--no-stall-check", "--stall-check-warning-time-seconds", 1)

    assert job.code == 0 and "stall" not in job.stderr, job
