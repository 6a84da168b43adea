# SPDX-License-Identifier: Apache-2.0
"""Worlds that mpirun started, with tensors that travel by MPI, and communicators of mpi4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import wording
from ranks import PROGRAMS, RunRanks

LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
    "mpich": ["mpiexec.hydra"],
}
DEBIAN_MPICH = Path("/usr/lib/x86_64-linux-gnu/libmpich.so.12")


@pytest.fixture
def library_path(tmp_path: Path) -> str:
    """mpi4py looks for MPICH as libmpi.so.12, which Debian calls libmpich.so.12."""
    (tmp_path / "libmpi.so.12").symlink_to(DEBIAN_MPICH)
    return f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}"


def run(
    launcher: str, ranks: int, given: str, program: str = "mpi_world.py", **variables: str
) -> subprocess.CompletedProcess[str]:
    command = LAUNCHERS[launcher]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(
        [*command, "-n", str(ranks), sys.executable, str(PROGRAMS / program), given],
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            **variables,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_tensors_travel_by_mpi_where_that_is_asked_for(launcher: str) -> None:
    result = run(launcher, 3, "nothing", HOROVOD_CPU_OPERATIONS="mpi")

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("world of 3: True True True") == 3, result.stdout


def test_survivors_of_a_world_by_mpi_are_told_that_it_cannot_go_on(run_ranks: RunRanks) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("mpirun.openmpi is not installed")
    job = run_ranks(
        *(3, "torch_survivors.py", "1:7"),
        flags=("--mpi", "--on-failure", "wait"),
        env={"HOROVOD_CPU_OPERATIONS": "mpi"},
    )

    assert job.exit_code == 7, str(job)
    for rank in (0, 2):
        words = re.escape(wording.MPI_NEEDS_ALL)
        assert re.search(rf"\[{rank}\]<stderr>:.*{words}", job.stderr), str(job)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_communicator_of_mpi4py_is_the_world(launcher: str, library_path: str) -> None:
    variables = {"HOROVOD_CPU_OPERATIONS": "mpi", "LD_LIBRARY_PATH": library_path}
    result = run(launcher, 4, "half", MPI4PY_MPIABI=launcher, **variables)

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("world of 2: True True True") == 4, result.stdout


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_communicators_of_mpi4py_are_process_sets(launcher: str, library_path: str) -> None:
    variables = {"LD_LIBRARY_PATH": library_path, "MPI4PY_MPIABI": launcher}
    result = run(launcher, 3, "", program="mpi_sets.py", **variables)

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("sets of 3") == 3, result.stdout


def test_a_communicator_alone_leaves_tensors_in_shared_memory() -> None:
    result = run("openmpi", 2, "world")

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("world of 2: True False True") == 2, result.stdout


def test_threads_are_not_asked_for_where_the_user_says_so() -> None:
    result = run(
        "openmpi", 2, "nothing", HOROVOD_CPU_OPERATIONS="mpi", HOROVOD_MPI_THREADS_DISABLE="1"
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("world of 2: True True ") == 2, result.stdout


def test_the_wrong_mpi_is_named() -> None:
    result = run(
        "openmpi",
        2,
        "nothing",
        HOROVOD_CPU_OPERATIONS="mpi",
        HOROVOD_MPI_LIBRARY=str(DEBIAN_MPICH),
    )

    assert result.returncode != 0
    other = wording.OTHER_MPI.format(size=2, launcher="Open MPI's mpirun", mpi="MPICH")
    assert other in result.stderr, result.stderr
    assert "HOROVOD_MPI_LIBRARY" in result.stderr, result.stderr


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_tensors_travel_by_mpi_under_horovodrun_mpi(run_ranks: RunRanks, launcher: str) -> None:
    env = {"HOROVOD_CPU_OPERATIONS": "mpi", "HOROVOD_MPIRUN": LAUNCHERS[launcher][0]}

    result = run_ranks(2, PROGRAMS / "mpi_world.py", "nothing", env=env, flags=("--mpi",))

    assert result.exit_code == 0, str(result)
    assert result.stdout.count("world of 2: True True True") == 2, str(result)


@pytest.mark.parametrize("given", ["half", "world"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_communicators_are_worlds_under_horovodrun_mpi(
    run_ranks: RunRanks, library_path: str, launcher: str, given: str
) -> None:
    env = {
        "HOROVOD_MPIRUN": LAUNCHERS[launcher][0],
        "LD_LIBRARY_PATH": library_path,
        "MPI4PY_MPIABI": launcher,
    }

    result = run_ranks(4, PROGRAMS / "mpi_world.py", given, env=env, flags=("--mpi",))

    assert result.exit_code == 0, str(result)
    size = 2 if given == "half" else 4
    assert result.stdout.count(f"world of {size}: True False True") == 4, str(result)


def test_ranks_that_were_in_different_worlds_meet_again(run_ranks: RunRanks) -> None:
    env = {"HOROVOD_MPIRUN": LAUNCHERS["openmpi"][0], "HOROVOD_START_TIMEOUT": "60"}

    result = run_ranks(4, PROGRAMS / "mpi_histories.py", env=env, flags=("--mpi",))

    assert result.exit_code == 0, str(result)
    assert result.stdout.count("met again") == 4, str(result)


def test_the_culprit_of_half_the_ranks_is_named(run_ranks: RunRanks) -> None:
    env = {"HOROVOD_MPIRUN": LAUNCHERS["openmpi"][0]}

    result = run_ranks(4, PROGRAMS / "mpi_failure.py", env=env, flags=("--mpi",), timeout=120)

    assert result.exit_code == 1, str(result)
    assert result.culprit == 3, str(result)
    error = wording.line(wording.LAST_LINE, text="ValueError: no data for rank 3")
    assert error in result.stderr, str(result)


def test_a_communicator_of_an_mpi_that_knows_no_other_rank_is_refused(run_ranks: RunRanks) -> None:
    """Without an mpirun every rank's MPI is a world of one, in which a job would learn nothing."""
    env = {"MPI4PY_MPIABI": "openmpi"}

    result = run_ranks(2, PROGRAMS / "mpi_world.py", "world", env=env)

    assert result.exit_code == 1, str(result)
    assert "world of 1" not in str(result), str(result)
    assert wording.MPI_OF_ONE.format(size=2, launcher="horovodrun") in str(result), str(result)
    assert "horovodrun --mpi" in str(result), str(result)


def test_a_communicator_of_one_rank_is_a_world_under_mpirun() -> None:
    result = run("openmpi", 2, "self")

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("world of 1: True False True") == 2, result.stdout


def test_horovodrun_cannot_give_its_ranks_mpi(run_ranks: RunRanks) -> None:
    result = run_ranks(
        2, PROGRAMS / "mpi_world.py", "nothing", env={"HOROVOD_CPU_OPERATIONS": "mpi"}
    )

    assert result.exit_code == 1, str(result)
    assert wording.NO_MPI_OF_OURS in str(result), str(result)
