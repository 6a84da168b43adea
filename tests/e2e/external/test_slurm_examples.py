# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/slurm, submitted to a real Slurm on two simulated hosts."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from external.slurm import Batch, Slurm

PROGRAMS = Path(__file__).resolve().parent / "programs"


@pytest.fixture
def submit(slurm: Slurm, horovodrun: Path, root: Path) -> Callable[..., Batch]:
    """submit(name, program, arguments...): as an ordinary user."""
    path = os.pathsep.join([str(horovodrun.parent), str(Path(sys.executable).parent)])

    def do(name: str, program: str, *arguments: str) -> Batch:
        return slurm.submit(
            (root / "examples/slurm" / name).read_text(),
            arguments=(str(PROGRAMS / program), *arguments),
            user="tester",
            PATH=f"{path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        )

    return do


def world(batch: Batch) -> list[dict[str, Any]]:
    """What roll_call.py said: all ranks have met."""
    batch.wait()
    assert batch.state() == "COMPLETED", batch.output()
    lines = [line[line.index("[{") :] for line in batch.output().splitlines() if "[{" in line]
    assert len(lines) == 1, batch.output()
    return json.loads(lines[0])


@pytest.mark.parametrize(
    ("script", "hosts"),
    [
        ("native.sbatch", ["h1", "h1", "h2", "h2"]),
        ("mpirun.sbatch", ["h1", "h2"]),
        ("srun.sbatch", ["h1", "h1", "h2", "h2"]),
    ],
)
def test_ranks_of_two_nodes_meet(
    submit: Callable[..., Batch], script: str, hosts: list[str]
) -> None:
    ranks = world(submit(script, "roll_call.py"))

    assert [rank["host"] for rank in ranks] == hosts
    assert [rank["rank"] for rank in ranks] == list(range(len(hosts)))
    assert {rank["size"] for rank in ranks} == {len(hosts)}


def test_each_job_of_an_array_has_its_seed(slurm: Slurm, submit: Callable[..., Batch]) -> None:
    array = submit("array.sbatch", "slurm_rank.py")
    for seed in ("1", "2"):
        one = Batch(slurm, f"{array.number}_{seed}")
        one.wait()
        assert one.state() == "COMPLETED", one.output()
        assert one.output().count(f'"SLURM_ARRAY_TASK_ID": "{seed}"') == 2, one.output()
        assert one.output().count('"size": 2') == 2


def test_a_requeued_job_goes_on_where_it_was(slurm: Slurm, submit: Callable[..., Batch]) -> None:
    folder = Path(slurm.head.path("/home/slurm/checkpoints"))
    folder.mkdir()
    folder.chmod(0o777)
    batch = submit("requeue.sbatch", "resuming.py", "/home/slurm/checkpoints")
    batch.wait_for(" began", 2)
    slurm.run("scontrol", "requeue", batch.number)
    batch.wait()

    assert batch.state() == "COMPLETED", batch.output()
    for rank in (0, 1):
        assert f"rank {rank} resumed at step 3" in batch.output()
    shutil.rmtree(folder)
