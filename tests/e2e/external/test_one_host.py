# SPDX-License-Identifier: Apache-2.0
"""Launchers that are not ours, on one host."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import wording
from commands import Ended
from external.worlds import (
    ROLL_CALL,
    TWO_WORLDS,
    check_one_host,
    check_two_worlds,
    environment,
    run,
    world_of,
)

# Not "mpirun": which of the two that is depends on the machine.
MPIRUN = (
    *("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
    *("-np",),
)
TORCHRUN = str(Path(sys.executable).parent / "torchrun")


def by(launcher: str) -> str:
    """What a rank says of its place where that launcher counts."""
    return wording.BY_VARIABLES.format(launcher=launcher)


def test_mpirun_of_open_mpi() -> None:
    ended = run(*MPIRUN, "3", *ROLL_CALL)

    check_one_host(world_of(ended), 3)
    assert ended.stderr.count(by("Open MPI's mpirun")) == 3


def test_mpiexec_of_mpich() -> None:
    ended = run("mpiexec.hydra", "-np", "3", *ROLL_CALL)

    check_one_host(world_of(ended), 3)
    assert ended.stderr.count(by("mpiexec (PMI)")) == 3


@pytest.mark.parametrize("launcher", [MPIRUN, ("mpiexec.hydra", "-np")], ids=["ompi", "mpich"])
def test_jobs_of_the_same_second_never_meet(launcher: tuple[str, ...]) -> None:
    jobs = [str(number) for number in range(3)]

    def start(job: str) -> Ended:
        return run(*launcher, "2", *ROLL_CALL, env=environment(OF_JOB=job))

    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(start, jobs))

    for job, end in zip(jobs, ended, strict=True):
        check_one_host(world_of(end), 2)
        assert [rank["job"] for rank in world_of(end)] == [job, job]


PMIX_ALONE = ("env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE")


def test_a_launcher_that_speaks_pmix_alone() -> None:
    ended = run(*MPIRUN, "2", *PMIX_ALONE, *ROLL_CALL)

    check_one_host(world_of(ended), 2)
    assert ended.stderr.count(by("a launcher with PMIx")) == 2


@pytest.mark.parametrize("more", [{}, {"PMIX_NAMESPACE": "gone@1"}], ids=["alone", "gone"])
def test_a_pmix_that_cannot_be_asked_is_no_world_of_one(more: dict[str, str]) -> None:
    ended = run(*ROLL_CALL, env=environment(PMIX_RANK="0", **more))

    assert ended.code != 0, ended
    no_name = wording.NO_VARIABLE.format(name="PMIX_NAMESPACE")
    assert no_name in ended.stderr or wording.NO_SIZE in ended.stderr
    assert wording.OTHER_LAUNCHER in ended.stderr


def test_torchrun() -> None:
    ended = run(TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python", *ROLL_CALL)

    check_one_host(world_of(ended), 2)
    assert ended.stderr.count(by("torchrun")) == 2


RUNS_OF_TWO = {
    "mpirun": (*MPIRUN, "2"),
    "pmix alone": (*MPIRUN, "2", *PMIX_ALONE),
    "mpich": ("mpiexec.hydra", "-np", "2"),
    "torchrun": (TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python"),
}


@pytest.mark.parametrize("launcher", RUNS_OF_TWO.values(), ids=RUNS_OF_TWO)
def test_ranks_init_twice_in_one_job(launcher: tuple[str, ...]) -> None:
    check_two_worlds(run(*launcher, *TWO_WORLDS), 2)


@pytest.mark.parametrize("mode", [(), ("--mpi",)], ids=["native", "mpi"])
def test_ranks_of_horovodrun_init_twice_in_one_job(horovodrun: Path, mode: tuple[str, ...]) -> None:
    check_two_worlds(run(str(horovodrun), *mode, "-np", "2", "--prefix", "none", *TWO_WORLDS), 2)


HIDDEN_STEP = """
import os, subprocess, sys
def start(rank):
    told = {"JOB_ID": 7, "STEP_ID": 0, "STEP_NUM_TASKS": 2, "STEP_TASKS_PER_NODE": 2, "NODEID": 0}
    told |= {"PROCID": rank, "LOCALID": rank}
    step = {f"SLURM_{name}": str(value) for name, value in told.items()}
    without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]  # as another user
    return subprocess.Popen([*without_rights, *sys.argv[1:]], env=os.environ | step)
sys.exit(max([rank.wait() for rank in [start(0), start(1)]]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes are hidden by root")
def test_ranks_meet_where_proc_hides_who_started_them() -> None:
    hide = 'mount -t proc -o hidepid=2,gid=65533 proc /proc && exec "$@"'
    step = (sys.executable, "-c", HIDDEN_STEP, *ROLL_CALL)

    ended = run("unshare", "--mount", "--pid", "--fork", "sh", "-c", hide, "sh", *step)

    check_one_host(world_of(ended), 2)


@pytest.mark.parametrize("launcher", [MPIRUN, ("mpiexec.hydra", "-np")], ids=["ompi", "mpich"])
def test_torchrun_inside_of_mpirun(launcher: tuple[str, ...]) -> None:
    torchrun = (TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python")

    ended = run(*launcher, "1", *torchrun, *ROLL_CALL)

    check_one_host(world_of(ended), 2)
    assert ended.stderr.count(by("torchrun")) == 2


def test_mpirun_inside_of_torchrun() -> None:
    torchrun = (TORCHRUN, "--standalone", "--nproc-per-node", "1", "--no-python")

    ended = run(*torchrun, *MPIRUN, "2", *ROLL_CALL)

    check_one_host(world_of(ended), 2)
    assert ended.stderr.count(by("Open MPI's mpirun")) == 2


def test_an_mpi_that_has_started_alone_is_not_the_launcher() -> None:
    """It leaves variables of a server of its own in the environment of each rank."""
    line = (
        TORCHRUN,
        "--standalone",
        "--nproc-per-node",
        "2",
        "--no-python",
        *ROLL_CALL,
    )

    ended = run(*line, "started")
    refused = run(*line, "world")

    check_one_host(world_of(ended), 2)
    assert refused.code != 0, refused
    assert wording.MPI_OF_ONE.format(size=2, launcher="torchrun") in refused.stderr, refused.stderr


def test_horovodrun_as_one_task_of_torchrun(horovodrun: Path) -> None:
    """In a task of Slurm's with PMI, which is not the launcher that counts."""
    outer = environment(
        SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_STEP_NUM_TASKS="1",
        PMI_RANK="0", PMI_SIZE="1",
    )  # fmt: skip
    line = (TORCHRUN, "--standalone", "--nproc-per-node", "2", "--no-python")

    ended = run(*line, str(horovodrun), *ROLL_CALL, env=outer)

    check_one_host(world_of(ended), 2)
    assert ended.stderr.count(by("torchrun")) == 2


FLUX = (
    "flux run",
    "FLUX_TASK_RANK",
    "FLUX_JOB_SIZE",
    "FLUX_TASK_LOCAL_ID",
    "FLUX_JOB_NNODES=1",
)
JSRUN = (
    *("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK"),
    "JSM_NAMESPACE_LOCAL_SIZE=2",
)


@pytest.mark.parametrize("names", [FLUX, JSRUN], ids=["flux", "jsrun"])
def test_launchers_that_are_not_here_by_their_variables(names: tuple[str, ...]) -> None:
    source, rank, size, local_rank, more = names

    def task(number: int) -> Ended:
        mine = {rank: str(number), size: "2", local_rank: str(number)}
        return run(*ROLL_CALL, env=environment(**mine, **dict([more.split("=")])))

    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(task, range(2)))

    check_one_host(world_of(ended[0]), 2)
    assert by(source) in ended[1].stderr


def test_mpirun_inside_an_allocation_and_a_task() -> None:
    outer = environment(
        SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2"
    )

    check_one_host(world_of(run(*MPIRUN, "2", *ROLL_CALL, env=outer)), 2)


def test_the_named_launcher_counts() -> None:
    ended = run(*MPIRUN, "1", *ROLL_CALL, env=environment(HOROVOD_LAUNCHER="none"))
    check_one_host(world_of(ended), 1)
    assert by("no launcher") in ended.stderr

    ended = run(*ROLL_CALL, env=environment(HOROVOD_LAUNCHER="slurm"))
    assert ended.code != 0
    missing = [
        wording.NO_VARIABLE.format(name=name) for name in ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    ]
    assert "; ".join(missing) in ended.stderr


def test_an_incomplete_environment_is_refused_with_all_values() -> None:
    ended = run(*ROLL_CALL, env=environment(PMI_RANK="0"))

    assert ended.code != 0
    missing = wording.NO_VARIABLE.format(name="PMI_SIZE")
    assert f"{missing} (PMI_RANK=0, PMI_SIZE unset" in ended.stderr
