# SPDX-License-Identifier: Apache-2.0
"""Launchers that are not ours, on one host."""

from __future__ import annotations

import sys
from pathlib import Path

from foreign.worlds import ROLL_CALL, check_one_host, environment, run

# Not "mpirun": which of the two that is depends on the machine.
MPIRUN = (
    *("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
    *("-np",),
)
TORCHRUN = str(Path(sys.executable).parent / "torchrun")


def test_mpirun_of_open_mpi() -> None:
    ended = run(*MPIRUN, "3", *ROLL_CALL)

    check_one_host(ended.world(), 3)
    assert ended.stderr.count("as the variables of Open MPI's mpirun say") == 3


def test_mpiexec_of_mpich() -> None:
    ended = run("mpiexec.hydra", "-np", "3", *ROLL_CALL)

    check_one_host(ended.world(), 3)
    assert ended.stderr.count("as the variables of mpiexec (PMI) say") == 3


def test_torchrun() -> None:
    ended = run(TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python", *ROLL_CALL)

    check_one_host(ended.world(), 2)
    assert ended.stderr.count("as the variables of torchrun say") == 2


def test_mpirun_inside_an_allocation_and_a_task() -> None:
    outer = environment(
        SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2"
    )

    check_one_host(run(*MPIRUN, "2", *ROLL_CALL, env=outer).world(), 2)


def test_the_named_launcher_counts() -> None:
    ended = run(*MPIRUN, "1", *ROLL_CALL, env=environment(HOROVOD_LAUNCHER="none"))
    check_one_host(ended.world(), 1)
    assert "as the variables of no launcher say" in ended.stderr

    ended = run(*ROLL_CALL, env=environment(HOROVOD_LAUNCHER="slurm"))
    assert ended.exit_code != 0
    assert "SLURM_PROCID is not set; SLURM_STEP_NUM_TASKS is not set" in ended.stderr


def test_an_incomplete_environment_is_refused_with_all_values() -> None:
    ended = run(*ROLL_CALL, env=environment(PMI_RANK="0"))

    assert ended.exit_code != 0
    assert "PMI_SIZE is not set (PMI_RANK=0, PMI_SIZE unset" in ended.stderr
