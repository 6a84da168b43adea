# SPDX-License-Identifier: Apache-2.0
"""More ranks than the limits of processes and descriptors allow are refused with the numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import wording
from commands import Ended

ECHO = ("sh", "-c", "echo started")


def user_of_its_own() -> int:
    """The kernel counts the processes of a user, so no other test has this one."""
    return 100_000 + os.getpid()


@pytest.fixture
def with_processes(launcher, tmp_path: Path) -> Callable[..., Ended]:
    """with_processes(4, "-np", 2, "true"): a job of an ordinary user who may have 4 processes."""
    if os.geteuid() != 0:
        pytest.skip("not root: the user of the tests has other processes")
    user = user_of_its_own()

    def run(limit: int, *arguments: object) -> Ended:
        prefix = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        return launcher.run(
            *arguments,
            prefix=(*prefix, "prlimit", f"--nproc={limit}:{limit}"),
            env={"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"},
            cwd="/",
        )

    return run


def test_more_ranks_than_processes_are_refused_before_any_starts(with_processes):
    job = with_processes(60, "-np", 100, *ECHO)

    assert (job.code, job.out) == (2, b""), job.err
    few = wording.pattern(wording.FEW_PROCESSES, limit=60, left=r"\d+", ranks=100)
    assert re.fullmatch(f"{wording.PREFIX}localhost: {few}", job.said[-1])


def test_as_many_ranks_as_there_are_processes_run(with_processes):
    job = with_processes(60, "-np", 40, "true")

    assert job.code == 0, job.err


# From no room for the agent to none for the thread that writes the output.
@pytest.mark.parametrize("limit, code", [(1, 125), (2, 125), (3, 2), (4, 2), (5, 125)])
def test_a_limit_that_leaves_no_room_for_horovodrun_is_named(with_processes, limit, code):
    job = with_processes(limit, "-np", 2, "sh", "-c", "echo started; exec sleep 2")

    assert job.code == code, job.err
    assert wording.PROCESSES.format(limit=limit) in job.stderr
    assert wording.RAISE_PROCESSES in job.stderr
    assert wording.INTERNAL_ERROR not in job.stderr


def test_more_ranks_than_descriptors_are_refused_before_any_starts(launcher):
    job = launcher.run("-np", 40, *ECHO, prefix=("prlimit", "--nofile=200:200"))

    assert (job.code, job.out) == (2, b""), job.err
    few = wording.HARD_LIMIT.format(limit=200, need=384)
    assert f"localhost: {few}" in job.said[-1]
