# SPDX-License-Identifier: Apache-2.0
"""horovodrun --mpi in allocations of a real Slurm: srun starts the daemons of mpirun too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import wording
from external.slurm import RANK, Slurm, said, wait_until_nothing_is_left

MPIRUNS = ("mpirun.openmpi", "mpiexec.hydra")
TWO_NODES = ("-N2", "--ntasks-per-node=2")


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_ranks_of_two_nodes_start_without_ssh(slurm: Slurm, horovodrun: Path, mpirun: str) -> None:
    batch = slurm.sbatch(f"HOROVOD_MPIRUN={mpirun} exec {horovodrun} --mpi {RANK}", *TWO_NODES)
    batch.wait()

    world = said(batch)
    assert [(rank["rank"], rank["host"]) for rank in world] == [
        (0, "h1"),
        (1, "h1"),
        (2, "h2"),
        (3, "h2"),
    ], batch.output()
    assert {rank["variables"]["SLURM_JOB_ID"] for rank in world} == {batch.number}
    assert batch.state() == "COMPLETED", batch.output()
    wait_until_nothing_is_left(slurm)


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_a_rank_that_fails_on_the_other_node_ends_the_batch(
    slurm: Slurm, horovodrun: Path, mpirun: str
) -> None:
    script = "[ $HOROVOD_RANK = 3 ] || sleep 60; sleep 1; exit 7"
    batch = slurm.sbatch(
        f"HOROVOD_MPIRUN={mpirun} exec {horovodrun} --mpi --grace 1 sh -c '{script}'", *TWO_NODES
    )
    batch.wait()

    assert wording.STARTED_BY.format(command=mpirun) in batch.output(), batch.output()
    assert batch.exit_code() != "0:0"
    wait_until_nothing_is_left(slurm)


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_the_only_rank_of_another_node_is_named_when_it_fails(
    slurm: Slurm, horovodrun: Path, mpirun: str
) -> None:
    script = "[ $HOROVOD_RANK = 1 ] || sleep 60; sleep 0.3; exit 7"
    batch = slurm.sbatch(
        f"HOROVOD_MPIRUN={mpirun} exec {horovodrun} --mpi --grace 1 sh -c '{script}'", "-N2", "-n2"
    )
    batch.wait()

    assert batch.exit_code() == "7:0", batch.output()
    assert wording.line(wording.culprit(1)) in batch.output()
    wait_until_nothing_is_left(slurm)


@pytest.mark.parametrize("mpirun", MPIRUNS)
def test_nothing_outlives_an_mpirun_that_is_killed(
    slurm: Slurm, horovodrun: Path, mpirun: str
) -> None:
    batch = slurm.sbatch(f"HOROVOD_MPIRUN={mpirun} exec {horovodrun} --mpi {RANK} 60", *TWO_NODES)
    batch.wait_for(">:{", 4)
    for one in slurm.nodes[0].find(mpirun)[:1]:
        os.kill(one.pid, signal.SIGKILL)
    batch.wait()

    assert batch.exit_code() != "0:0", batch.output()
    assert mpirun in batch.output()
    wait_until_nothing_is_left(slurm)
