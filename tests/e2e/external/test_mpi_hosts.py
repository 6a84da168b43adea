# SPDX-License-Identifier: Apache-2.0
"""mpirun and mpiexec over two simulated hosts: address and key travel by PMIx and PMI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wording
from commands import Ended, run_command
from external.worlds import PROGRAMS, ROLL_CALL, TWO_WORLDS, check_two_worlds, world_of
from support.hosts import Lab

MPIRUN = (
    *("mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-np", "4"),
    *("-H", "h1:2,h2:2", "-x", "HOROVOD_LOG_LEVEL"),
)
MPIEXEC = ("mpiexec.hydra", "-np", "4", "-ppn", "2", "-hosts", "h1,h2")
HALF_SUM = (sys.executable, str(PROGRAMS / "half_sum.py"))

DEBIAN_MPICH = Path("/usr/lib/x86_64-linux-gnu/libmpich.so.12")

Start = Callable[..., Ended]


@pytest.fixture
def mpi4py(request: pytest.FixtureRequest, lab: Lab) -> dict[str, str]:
    """What mpi4py needs: it knows MPICH as libmpi.so.12, which Debian calls otherwise."""
    if request.node.callspec.params["launcher"] is MPIRUN:
        return {"MPI4PY_MPIABI": "openmpi"}
    link = lab[0].path("/root/mpich/libmpi.so.12")
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(DEBIAN_MPICH)
    return {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": "/root/mpich"}


@pytest.fixture(scope="module")
def start(lab: Lab) -> Start:
    """start(launcher, *command, **variables): runs it on the first of two hosts."""
    passed = {
        name: os.environ[name] for name in ("HOROVOD_LIBRARY", "PYTHONPATH") if name in os.environ
    }
    exports = tuple(word for name in passed for word in ("-x", name))

    def run(launcher: tuple[str, ...], *command: str, **variables: str) -> Ended:
        options = exports if launcher is MPIRUN else ()
        extra = tuple(word for name in variables for word in ("-x", name))
        options += extra if launcher is MPIRUN else ()
        return run_command(
            *(*lab[0].prefix(), *launcher, *options, *command),
            timeout=100,
            env=lab[0].environment(HOROVOD_LOG_LEVEL="info", **passed, **variables),
        )

    return run


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_ranks_of_two_hosts_meet(start: Start, launcher: tuple[str, ...]) -> None:
    ended = start(launcher, *ROLL_CALL)

    world = world_of(ended)
    assert [rank["host"] for rank in world] == ["h1", "h1", "h2", "h2"]
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert [rank["cross"] for rank in world] == [[0, 2], [0, 2], [1, 2], [1, 2]]
    assert wording.CONNECTED in ended.stderr


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_hosts_of_one_name_are_two(start: Start, launcher: tuple[str, ...]) -> None:
    rename = ("unshare", "--uts", "sh", "-c", 'hostname same; exec "$@"', "sh")

    ended = start(launcher, *rename, *ROLL_CALL)

    world = world_of(ended)
    assert [rank["host"] for rank in world] == ["same"] * 4
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_the_next_world_of_the_processes_meets_too(start: Start, launcher: tuple[str, ...]) -> None:
    ended = start(launcher, *TWO_WORLDS)

    check_two_worlds(ended, 4)


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_a_communicator_over_hosts_is_a_world(
    start: Start, launcher: tuple[str, ...], mpi4py: dict[str, str]
) -> None:
    ended = start(launcher, *ROLL_CALL, "half", **mpi4py)

    assert ended.code == 0, ended
    worlds = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
    assert len(worlds) == 2, ended
    for world in worlds:
        assert [rank["host"] for rank in world] == ["h1", "h2"]
        assert [rank["rank"] for rank in world] == [0, 1]
        assert [rank["local"] for rank in world] == [[0, 1], [0, 1]]
        assert [rank["cross"] for rank in world] == [[0, 2], [1, 2]]


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_ranks_whose_mpi_is_started_meet_by_it(
    start: Start, launcher: tuple[str, ...], mpi4py: dict[str, str]
) -> None:
    ended = start(launcher, *ROLL_CALL, "started", **mpi4py)

    assert [rank["host"] for rank in world_of(ended)] == ["h1", "h1", "h2", "h2"]


def check_tensors_by_mpi(world: list[dict[str, Any]]) -> None:
    assert [rank["host"] for rank in world] == ["h1", "h1", "h2", "h2"]
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert {rank["is by mpi"] for rank in world} == {True}


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_tensors_travel_by_mpi_between_hosts(start: Start, launcher: tuple[str, ...]) -> None:
    ended = start(launcher, *ROLL_CALL, HOROVOD_CPU_OPERATIONS="mpi")

    check_tensors_by_mpi(world_of(ended))


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpiexec.hydra"])
def test_tensors_travel_by_mpi_between_hosts_of_horovodrun_mpi(
    start: Start, horovodrun: Path, mpirun: str
) -> None:
    line = (str(horovodrun), "--mpi", "-np", "4", "-H", "h1:2,h2:2")

    ended = start(line, *ROLL_CALL, HOROVOD_MPIRUN=mpirun, HOROVOD_CPU_OPERATIONS="mpi")

    assert ended.code == 0, ended
    said = [line for line in ended.stdout.splitlines() if line.startswith("[0]<stdout>:[")]
    check_tensors_by_mpi(json.loads(said[0].removeprefix("[0]<stdout>:")))


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpiexec.hydra"])
def test_halves_of_several_hosts_add_up_in_rank_order_where_that_is_asked_for(
    start: Start, horovodrun: Path, mpirun: str
) -> None:
    line = (str(horovodrun), "--mpi", "-np", "16", "-H", "h1:8,h2:8", "--prefix", "none")
    by_mpi = {"HOROVOD_MPIRUN": mpirun, "HOROVOD_CPU_OPERATIONS": "mpi"}
    one_rank_asks = ("sh", "-c", 'test $HOROVOD_RANK != 5 || export HOROVOD_DETERMINISTIC=1; "$@"')

    in_its_own = start(line, *HALF_SUM, **by_mpi)
    in_rank_order = start(line, *one_rank_asks, "sh", *HALF_SUM, **by_mpi)
    refused = start(line, *HALF_SUM, HOROVOD_DETERMINISTIC="yes", **by_mpi)

    assert (in_its_own.code, in_its_own.stdout) == (0, "sum 2050.0\n"), in_its_own
    assert (in_rank_order.code, in_rank_order.stdout) == (0, "sum 2048.0\n"), in_rank_order
    assert refused.code == 2
    assert wording.BAD_VARIABLE.format(name="HOROVOD_DETERMINISTIC", value="yes") in refused.stderr


HIDES_PMIX = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void* dlopen(const char* name, int flags) {
    void* (*const next)(const char*, int) = (void* (*)(const char*, int))dlsym(RTLD_NEXT, "dlopen");
    return name != NULL && strcmp(name, "libpmix.so.2") == 0 ? NULL : next(name, flags);
}
"""


@pytest.fixture
def without_pmix(lab: Lab, tmp_path: Path) -> tuple[str, ...]:
    """Runs a command as beside an Open MPI that keeps its PMIx to itself."""
    source = tmp_path / "hides.c"
    source.write_text(HIDES_PMIX)
    library = lab[0].path("/root/hides.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    return ("env", "LD_PRELOAD=/root/hides.so")


def test_without_a_pmix_library_mpi_is_started_for_it(
    start: Start, without_pmix: tuple[str, ...]
) -> None:
    ended = start(MPIRUN, *without_pmix, *ROLL_CALL)

    assert [rank["host"] for rank in world_of(ended)] == ["h1", "h1", "h2", "h2"]


def test_without_a_pmix_library_a_key_file_and_an_address_do(
    start: Start, without_pmix: tuple[str, ...], lab: Lab
) -> None:
    key = lab[0].path("/root/key")
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    variables = {"HOROVOD_JOB_KEY_FILE": "/root/key", "MASTER_ADDR": "h1"}

    ended = start(MPIRUN, *without_pmix, *ROLL_CALL, HOROVOD_MPI_LIBRARY="/none", **variables)
    no_address = start(
        MPIRUN, *without_pmix, *ROLL_CALL, HOROVOD_MPI_LIBRARY="/none", HOROVOD_START_TIMEOUT="20"
    )

    assert [rank["host"] for rank in world_of(ended)] == ["h1", "h1", "h2", "h2"]
    assert no_address.code != 0
    assert wording.NO_PMIX in no_address.stderr
    assert "HOROVOD_JOB_KEY_FILE" in no_address.stderr, no_address


def test_a_rank_that_does_not_come_is_named(start: Start) -> None:
    late = 'test $OMPI_COMM_WORLD_RANK = 2 && exec sleep 60; exec "$@"'

    ended = start(MPIRUN, "sh", "-c", late, "sh", *ROLL_CALL, HOROVOD_START_TIMEOUT="8")

    assert ended.code != 0
    assert wording.NOT_COME.format(ranks="2") in ended.stderr
