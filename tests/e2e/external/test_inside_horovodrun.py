# SPDX-License-Identifier: Apache-2.0
"""Launchers inside of the ranks of horovodrun: the innermost counts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import wording
from commands import Ended
from external.slurm import Slurm
from external.worlds import ROLL_CALL, check_one_host, environment, run, worlds_of

TORCHRUN = (str(Path(sys.executable).parent / "torchrun"), "--standalone", "--no-python")
INNER = {
    "torchrun": (*TORCHRUN, "--nproc-per-node", "2"),
    "ompi": (
        *("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
        *("-np", "2"),
    ),
    "hydra": ("mpiexec.hydra", "-np", "2"),
}
SOURCES = {
    "torchrun": "torchrun",
    "ompi": "Open MPI's mpirun",
    "hydra": "mpiexec (PMI)",
    "srun": "srun",
}
# How horovodrun starts its ranks, and the mpirun that does it.
OUTER = {
    "native": ((), {}),
    "open mpi": (("--mpi",), {"HOROVOD_MPIRUN": "mpirun.openmpi"}),
    "hydra": (("--mpi",), {"HOROVOD_MPIRUN": "mpiexec.hydra"}),
}
BY_HOROVODRUN = wording.BY_VARIABLES.format(launcher="horovodrun")
outer_launchers = pytest.mark.parametrize("outer", OUTER)
# Open MPI refuses to run inside its ranks.
PAIRS = [
    (outer, inner) for outer in OUTER for inner in INNER if (outer, inner) != ("open mpi", "ompi")
]
pairs = pytest.mark.parametrize(("outer", "inner"), PAIRS)
inner_launchers = pytest.mark.parametrize("inner", INNER)


def start(horovodrun: Path, outer: str, *command: str, ranks: int = 2) -> Ended:
    flags, variables = OUTER[outer]
    line = (str(horovodrun), *flags, "-np", str(ranks), "--prefix", "none", *command)
    return run(*line, env=environment(**variables))


def check_worlds(ended: Ended, count: int, inner: str) -> None:
    """Each rank of horovodrun's has started two, which are a world and know by whom."""
    worlds = worlds_of(ended)
    assert len(worlds) == count, ended
    for world in worlds:
        check_one_host(world, 2)
    pids = [rank["pid"] for world in worlds for rank in world]
    assert len(set(pids)) == 2 * count, ended
    source = wording.BY_VARIABLES.format(launcher=SOURCES[inner])
    assert ended.stderr.count(source) == 2 * count


@pairs
def test_ranks_that_a_rank_starts_are_a_world(horovodrun: Path, outer: str, inner: str) -> None:
    check_worlds(start(horovodrun, outer, *INNER[inner], *ROLL_CALL), 2, inner)


@pairs
def test_a_shell_in_between_changes_nothing(horovodrun: Path, outer: str, inner: str) -> None:
    shell = ("sh", "-c", '"$@"; exit $?', "sh")

    ended = start(horovodrun, outer, *shell, *INNER[inner], *shell, *ROLL_CALL, ranks=1)

    check_worlds(ended, 1, inner)


WITHOUT_DESCRIPTORS = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


@pairs
def test_numbers_of_descriptors_may_be_the_same(horovodrun: Path, outer: str, inner: str) -> None:
    """Python closes the rank's connection to its launcher, so that the next one has its number."""
    line = (sys.executable, "-c", WITHOUT_DESCRIPTORS, *INNER[inner], *ROLL_CALL)

    check_worlds(start(horovodrun, outer, *line), 2, inner)


@outer_launchers
def test_ranks_without_a_launcher_inside_are_horovodruns(horovodrun: Path, outer: str) -> None:
    ended = start(horovodrun, outer, *ROLL_CALL)

    (world,) = worlds_of(ended)
    check_one_host(world, 2)
    assert ended.stderr.count(BY_HOROVODRUN) == 2


def test_an_outer_mpirun_or_torchrun_is_not_the_innermost(horovodrun: Path) -> None:
    one = {"hydra": ("mpiexec.hydra", "-np", "1"), "ompi": (*INNER["ompi"][:-1], "1")}
    one["torchrun"] = (*TORCHRUN, "--nproc-per-node", "1")

    for name, launcher in one.items():
        ended = run(*launcher, str(horovodrun), "-np", "2", "--prefix", "none", *ROLL_CALL)

        (world,) = worlds_of(ended)
        check_one_host(world, 2)
        assert ended.stderr.count(BY_HOROVODRUN) == 2, (name, ended)


FAIL_AS_INNER = """
import os
from horovod.common.basics import HorovodBasics
hvd = HorovodBasics()
hvd.init()
if hvd.rank() == 1:
    raise ValueError("of the inner rank 1")
hvd.shutdown()
"""


@pytest.mark.parametrize("inner", ["ompi", "hydra"])
def test_a_failure_of_an_inner_rank_is_not_reported_as_one_of_the_outer_rank(
    horovodrun: Path, inner: str
) -> None:
    """The launcher in between ends with another code, which is the outer rank's."""
    ended = start(
        *(horovodrun, "native", "sh", "-c", '"$@" 2>/dev/null; exit 9', "sh"),
        *(*INNER[inner], sys.executable, "-c", FAIL_AS_INNER),
        ranks=1,
    )

    assert ended.code == 9, ended
    assert "of the inner rank 1" not in ended.stderr


@outer_launchers
def test_a_job_inside_of_a_rank_is_refused(horovodrun: Path, outer: str) -> None:
    ended = start(horovodrun, outer, str(horovodrun), "-np", "2", "true")

    assert ended.code == 2, ended
    already = wording.ALREADY_OF.format(size=2, launcher="horovodrun")
    assert f" {already}{wording.LEAVE_OUT_NP}" in ended.stderr


def test_a_job_inside_of_an_only_rank_is_refused_too(horovodrun: Path) -> None:
    ended = start(horovodrun, "native", str(horovodrun), "-H", "localhost:2", "true", ranks=1)

    assert ended.code == 2, ended
    already = wording.ALREADY_RANK.format(rank=0, size=1, launcher="horovodrun")
    assert already in ended.stderr


def test_without_a_number_of_ranks_the_command_is_run_as_the_rank(horovodrun: Path) -> None:
    ended = start(horovodrun, "native", str(horovodrun), *ROLL_CALL)

    (world,) = worlds_of(ended)
    check_one_host(world, 2)
    assert ended.stderr.count(BY_HOROVODRUN) == 2


@inner_launchers
def test_horovodrun_is_a_task_of_the_launcher_inside(horovodrun: Path, inner: str) -> None:
    line = (*INNER[inner], str(horovodrun))

    check_worlds(start(horovodrun, "native", *line, *ROLL_CALL), 2, inner)
    refused = start(horovodrun, "native", *line, "-np", "2", "true")
    assert refused.code == 2 or inner == "torchrun", refused
    assert wording.ALREADY_OF.format(size=2, launcher="") in refused.stderr


@pytest.mark.parametrize(
    "question",
    [
        ("--check-build",),
        ("--dry-run", "-np", "2", "true"),
        ("doctor", "-H", "localhost"),
        ("--version",),
    ],
    ids=lambda question: question[0],
)
def test_questions_are_answered_inside_of_a_rank(
    horovodrun: Path, question: tuple[str, ...]
) -> None:
    ended = start(horovodrun, "native", str(horovodrun), *question, ranks=1)

    assert "under horovodrun" not in ended.stderr
    assert ended.code in ((0, 1) if question[0] == "doctor" else (0,)), ended


def test_a_job_of_its_own_can_be_insisted_on(horovodrun: Path) -> None:
    own = ("env", "HOROVOD_LAUNCHER=none", str(horovodrun), "-np", "2", "--prefix", "none")

    ended = start(horovodrun, "native", *own, *ROLL_CALL)

    assert [len(world) for world in worlds_of(ended)] == [2, 2]


SRUN = ("srun", "--overlap", "-N1", "-n2")


@pytest.mark.parametrize("inner", [*INNER, "srun"])
def test_in_ranks_that_srun_gave_agents(slurm: Slurm, horovodrun: Path, inner: str) -> None:
    launcher = SRUN if inner == "srun" else INNER[inner]
    line = (str(horovodrun), "-np", "1", "--prefix", "none", *launcher, *ROLL_CALL)
    batch = slurm.sbatch(f"exec {' '.join(line)}", "-N1", "-n2")
    batch.wait()

    check_worlds(Ended(0, batch.output().encode(), batch.output().encode()), 1, inner)
    assert batch.exit_code() == "0:0"


def test_a_job_in_a_rank_of_slurm_is_refused(slurm: Slurm, horovodrun: Path) -> None:
    batch = slurm.sbatch(f"exec {horovodrun} {horovodrun} -np 2 true", "-N2", "-n2")
    batch.wait()

    assert batch.exit_code() == "2:0", batch.output()
    assert wording.ALREADY_OF.format(size=2, launcher="horovodrun") in batch.output()


@outer_launchers
def test_srun_in_a_rank(slurm: Slurm, horovodrun: Path, outer: str) -> None:
    flags, variables = OUTER[outer]
    line = (str(horovodrun), *flags, "-np", "1", "--prefix", "none", "srun", "-N1", "-n2")

    ended = slurm.run(*line, *ROLL_CALL, timeout=100, **variables)

    check_worlds(ended, 1, "srun")
