# SPDX-License-Identifier: Apache-2.0
"""horovodrun in allocations of a real Slurm: srun starts an agent on each node."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from foreign.slurm import Batch, Slurm

PROGRAMS = Path(__file__).resolve().parent / "programs"
RANK = f"{sys.executable} {PROGRAMS}/slurm_rank.py"


def said(batch: Batch) -> list[dict[str, Any]]:
    """What the ranks printed, without the tags, in the order of ranks."""
    lines = [line.partition(">:")[2] for line in batch.output().splitlines() if ">:{" in line]
    return sorted(map(json.loads, lines), key=lambda one: one["rank"])


def test_two_nodes_of_sbatch_give_the_ranks_without_a_flag_or_ssh(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(
        f"export MARK=passed\nexec {horovodrun} --verbose {RANK}", "-N2", "--ntasks-per-node=2"
    )
    batch.wait()

    world = said(batch)
    assert [rank["rank"] for rank in world] == [0, 1, 2, 3], batch.output()
    assert [rank["host"] for rank in world] == ["h1", "h1", "h2", "h2"]
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert [rank["cross"] for rank in world] == [[0, 2], [0, 2], [1, 2], [1, 2]]
    assert {rank["size"] for rank in world} == {4}
    assert batch.state() == "COMPLETED"
    assert "srun" in batch.output()


def test_ranks_keep_the_variables_of_the_allocation_and_none_of_their_agents_task(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(
        f"env | grep ^SLURM_ | sed s/^/batch:/\nexec {horovodrun} {RANK}",
        *("-N2", "--ntasks=3", "--ntasks-per-node=2"),
    )
    batch.wait()

    of_batch = dict(
        line.removeprefix("batch:").split("=", 1)
        for line in batch.output().splitlines()
        if line.startswith("batch:")
    )
    world = said(batch)
    assert len(world) == 3, batch.output()
    for rank in world:
        variables = rank["variables"]
        for name in ("JOB_ID", "NTASKS", "NNODES", "NTASKS_PER_NODE", "TASKS_PER_NODE"):
            assert variables[f"SLURM_{name}"] == of_batch[f"SLURM_{name}"]
        assert variables["SLURMD_NODENAME"] == rank["host"]
        gone = ("PROCID", "LOCALID", "NODEID", "GTIDS", "TASK_PID", "STEP", "CPU_BIND", "SRUN")
        assert not [
            name
            for name in variables
            if name.startswith(("SRUN_", "PMI", *(f"SLURM_{word}" for word in gone)))
        ]


def test_more_ranks_than_the_allocation_has_tasks_are_refused(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(f"exec {horovodrun} -np 5 {RANK}", "-N2", "--ntasks-per-node=2")
    batch.wait()

    assert f"-np 5 is more than the 4 tasks of Slurm job {batch.number} (h1:2,h2:2)" in (
        batch.output()
    )
    assert batch.exit_code() == "2:0"


def test_salloc_on_one_node_starts_its_ranks_there_too(slurm: Slurm, horovodrun: Path) -> None:
    ended = slurm.run("salloc", "-Q", "-N1", "-w", "h2", "-n2", str(horovodrun), *RANK.split())

    assert ended.exit_code == 0, ended
    assert ended.stdout.count('"host": "h2"') == 2


def test_an_ordinary_user_needs_no_shared_folder_for_the_agent(
    slurm: Slurm, horovodrun: Path
) -> None:
    ended = slurm.run(
        *("salloc", "-Q", "-N2", "--ntasks-per-node=1", "sh", "-c"),
        f"cp {horovodrun} {horovodrun.parent}/hvd-agent /tmp/ && /tmp/horovodrun {RANK}",
        user="tester",
    )

    assert ended.exit_code == 0, ended
    assert '"host": "h1"' in ended.stdout
    assert '"host": "h2"' in ended.stdout
    assert not [*Path(slurm.nodes[1].path("/tmp")).glob("hvd-agent*")]
