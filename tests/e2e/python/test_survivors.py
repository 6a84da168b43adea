# SPDX-License-Identifier: Apache-2.0
"""Jobs with --on-failure wait: what remains of a world forms a smaller one."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import wording
from ranks import RunRanks

pytest.importorskip("torch", reason="PyTorch is not installed")

WAIT = ("--on-failure", "wait")


@pytest.mark.parametrize("transport", ["", "tcp"])
def test_survivors_init_again(run_ranks: RunRanks, transport: str) -> None:
    job = run_ranks(
        3, "torch_survivors.py", "1:7", flags=WAIT, env={"HOROVOD_CPU_OPERATIONS": transport}
    )

    assert job.exit_code == 7, str(job)
    assert job.culprit == 1, str(job)
    for rank, place in ((0, 0), (2, 1)):
        first, lost, second, done = job.lines(rank)
        assert first == f"{rank} of 3, local {rank} of 3", str(job)
        assert re.match(r"lost: .*rank 1 ", lost), str(job)
        assert second == f"{place} of 2, local {place} of 2", str(job)
        assert done == "done", str(job)


def test_the_first_rank_may_die_and_others_after_it(run_ranks: RunRanks) -> None:
    job = run_ranks(4, "torch_survivors.py", "0:5", "2:6", "0:7", flags=WAIT)

    assert job.exit_code == 5, str(job)
    assert [line for line in job.lines(2) if " of " in line and "lost" not in line] == [
        "2 of 4, local 2 of 4",
        "1 of 3, local 1 of 3",
        "1 of 2, local 1 of 2",
        "0 of 1, local 0 of 1",
    ], str(job)
    assert job.lines(2)[-1] == "done", str(job)


def test_each_world_has_its_own_traces(
    run_ranks: RunRanks, horovodrun: Path, tmp_path: Path
) -> None:
    flags = (*WAIT, "--timeline-all", str(tmp_path / "traces"))
    job = run_ranks(3, "torch_survivors.py", "1:7", flags=flags)

    assert job.exit_code == 7, str(job)
    for folder, size in (("traces", 3), ("traces/world-2", 2)):
        merged = subprocess.run(
            [horovodrun, "timeline", str(tmp_path / folder)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert merged.returncode == 0, merged.stderr
        assert merged.stderr == "", merged.stderr
        events = json.loads(merged.stdout)["traceEvents"]
        assert {event["pid"] for event in events} == set(range(size))


def test_without_the_flag_the_job_ends(run_ranks: RunRanks) -> None:
    job = run_ranks(3, "torch_survivors.py", "1:7")

    assert job.exit_code == 7, str(job)
    assert "done" not in job.stdout, str(job)


def test_a_rank_that_lives_and_does_not_come_is_told_of(run_ranks: RunRanks) -> None:
    env = {"HOROVOD_START_TIMEOUT": "3"}
    job = run_ranks(3, "torch_survivors.py", "1:7", "late", flags=WAIT, env=env)

    assert job.exit_code == 7, str(job)
    late = re.escape(wording.LIVES_AND_IS_LATE)
    assert re.search(rf"\[0\]<stderr>:.*{late}", job.stderr), job
