# SPDX-License-Identifier: Apache-2.0
"""Tasks of a real Slurm on two simulated hosts."""

from __future__ import annotations

import pytest
import wording
from external.slurm import Slurm
from external.worlds import ROLL_CALL, TWO_WORLDS, check_two_worlds, world_of

TWO_BY_TWO = ("-N2", "--ntasks-per-node=2")


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_srun_on_two_nodes_with_and_without_pmi(slurm: Slurm, mpi: str) -> None:
    ended = slurm.run("srun", f"--mpi={mpi}", *TWO_BY_TWO, *ROLL_CALL)

    world = world_of(ended)
    assert [rank["host"] for rank in world] == ["h1", "h1", "h2", "h2"]
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert [rank["cross"] for rank in world] == [[0, 2], [0, 2], [1, 2], [1, 2]]
    assert ended.stderr.count(wording.BY_VARIABLES.format(launcher="srun")) == 4


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_tasks_of_srun_init_twice_in_one_job_step(slurm: Slurm, mpi: str) -> None:
    check_two_worlds(slurm.run("srun", f"--mpi={mpi}", *TWO_BY_TWO, *TWO_WORLDS), 4)


def test_srun_of_an_ordinary_user_with_ranks_dealt_round(slurm: Slurm) -> None:
    ended = slurm.run("srun", *TWO_BY_TWO, "-m", "cyclic", *ROLL_CALL, user="tester")

    world = world_of(ended)
    assert [rank["host"] for rank in world] == ["h1", "h2", "h1", "h2"]
    assert [rank["cross"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]


def test_srun_on_one_node_needs_no_munge(slurm: Slurm) -> None:
    ended = slurm.run("srun", "-N1", "-n3", *ROLL_CALL, HOROVOD_MUNGE_SOCKET="/nowhere/munge")

    assert [rank["local"] for rank in world_of(ended)] == [[0, 3], [1, 3], [2, 3]]


def test_an_allocation_is_no_task_and_mpirun_in_it_is_the_launcher(slurm: Slurm) -> None:
    alone = slurm.run("salloc", "-Q", *TWO_BY_TWO, *ROLL_CALL)
    assert [rank["size"] for rank in world_of(alone)] == [1]

    mpirun = ("mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-np", "2")
    inside = slurm.run("salloc", "-Q", *TWO_BY_TWO, *mpirun, *ROLL_CALL)
    assert [rank["local"] for rank in world_of(inside)] == [[0, 2], [1, 2]]
    by_mpirun = wording.BY_VARIABLES.format(launcher="Open MPI's mpirun")
    assert inside.stderr.count(by_mpirun) == 2


@pytest.mark.parametrize("mpi", ["pmi2", "pmix"])
def test_srun_with_pmi_needs_no_munge(slurm: Slurm, mpi: str) -> None:
    ended = slurm.run(
        *("srun", f"--mpi={mpi}", *TWO_BY_TWO, *ROLL_CALL),
        HOROVOD_MUNGE_SOCKET="/nowhere/munge",
    )

    assert [rank["host"] for rank in world_of(ended)] == ["h1", "h1", "h2", "h2"]


def test_without_munge_on_two_nodes_the_remedies_are_named(slurm: Slurm) -> None:
    ended = slurm.run("srun", "-N2", *ROLL_CALL, HOROVOD_MUNGE_SOCKET="/nowhere/munge")

    assert ended.code != 0
    assert wording.MUNGE_OR_KEY in ended.stderr
