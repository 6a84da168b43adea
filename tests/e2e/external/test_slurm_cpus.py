# SPDX-License-Identifier: Apache-2.0
"""horovodrun in allocations of a real Slurm that confines steps to their CPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from external.slurm import RANK, Slurm, said
from support.hosts import Lab, why_not


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    if reason := why_not():
        pytest.skip(reason)
    with Lab(2) as lab:
        yield Slurm(lab, task_plugin="task/affinity", cpus=2)


def planned(text: str) -> list[str]:
    """The CPUs of each rank, of a plan that --verbose printed."""
    return re.findall(r"^\d +h\d +\S+ +\S+ +\S+ +(\S+)$", text, re.MULTILINE)


def test_ranks_have_the_cpus_of_their_allocation_alone(slurm: Slurm, horovodrun: Path) -> None:
    own = "python3 -c 'import os; print(*os.sched_getaffinity(0))'"
    other = slurm.sbatch(f"echo own $({own}); exec sleep 60", "-N1", "-n1", "-w", "h1")
    other.wait_for("own ")
    batch = slurm.sbatch(f"exec {horovodrun} --verbose {RANK}", "-N2", "-n2", "-w", "h[1-2]")
    batch.wait()
    slurm.run("scancel", other.number)
    other.wait()

    taken = int(other.output().split()[1])
    cpus = [one["cpus"] for one in said(batch)]
    assert [len(mine) for mine in cpus] == [1, 1], batch.output()
    assert cpus[0] != [taken]
    assert planned(batch.output()) == [str(mine[0]) for mine in cpus], batch.output()


@pytest.mark.parametrize("tasks", [("-n2",), ("-n2", "--gpus-per-task=1"), ("-n1", "-c2")])
def test_ranks_share_all_cpus_of_their_allocation(
    slurm: Slurm, horovodrun: Path, tasks: tuple[str, ...]
) -> None:
    batch = slurm.sbatch(f"exec {horovodrun} --verbose {RANK}", "-N1", *tasks)
    batch.wait()

    cpus = [one["cpus"] for one in said(batch)]
    assert [len(mine) for mine in cpus] == ([2] if "-n1" in tasks else [1, 1]), batch.output()
    assert len({cpu for mine in cpus for cpu in mine}) == 2
    assert planned(batch.output()) == ["-".join(map(str, mine)) for mine in cpus], batch.output()
