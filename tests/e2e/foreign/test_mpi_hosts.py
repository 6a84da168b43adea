# SPDX-License-Identifier: Apache-2.0
"""mpirun and mpiexec over two simulated hosts: address and key travel by PMIx and PMI."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from foreign.worlds import PROGRAMS, ROLL_CALL, Ended
from support.hosts import Lab, why_not

MPIRUN = (
    *("mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "-np", "4"),
    *("-H", "h1:2,h2:2", "-x", "HOROVOD_LOG_LEVEL"),
)
MPIEXEC = ("mpiexec.hydra", "-np", "4", "-ppn", "2", "-hosts", "h1,h2")
TWO_WORLDS = (sys.executable, str(PROGRAMS / "two_worlds.py"))

Start = Callable[..., Ended]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """start(*command): runs it on the first of two hosts."""
    if reason := why_not():
        pytest.skip(reason)
    passed = {
        name: os.environ[name] for name in ("HOROVOD_LIBRARY", "PYTHONPATH") if name in os.environ
    }
    exports = tuple(word for name in passed for word in ("-x", name))

    with Lab(2) as lab:

        def run(launcher: tuple[str, ...], *command: str, **variables: str) -> Ended:
            options = exports if launcher is MPIRUN else ()
            extra = tuple(word for name in variables for word in ("-x", name))
            options += extra if launcher is MPIRUN else ()
            result = subprocess.run(
                [*lab[0].prefix(), *launcher, *options, *command],
                env=lab[0].environment(HOROVOD_LOG_LEVEL="info", **passed, **variables),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=100,
            )
            return Ended(
                result.returncode,
                result.stdout.decode(errors="replace"),
                result.stderr.decode(errors="replace"),
            )

        yield run


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_ranks_of_two_hosts_meet(start: Start, launcher: tuple[str, ...]) -> None:
    ended = start(launcher, *ROLL_CALL)

    world = ended.world()
    assert [rank["host"] for rank in world] == ["h1", "h1", "h2", "h2"]
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert [rank["cross"] for rank in world] == [[0, 2], [0, 2], [1, 2], [1, 2]]
    assert "connected over tcp" in ended.stderr


@pytest.mark.parametrize("launcher", [MPIRUN, MPIEXEC], ids=["openmpi", "mpich"])
def test_the_next_world_of_the_processes_meets_too(start: Start, launcher: tuple[str, ...]) -> None:
    ended = start(launcher, *TWO_WORLDS)

    assert ended.exit_code == 0, ended
    assert ended.stdout.splitlines() == ["world 0 of 4", "world 1 of 4"]


def test_a_rank_that_does_not_come_is_named(start: Start) -> None:
    late = 'test $OMPI_COMM_WORLD_RANK = 2 && exec sleep 60; exec "$@"'

    ended = start(MPIRUN, "sh", "-c", late, "sh", *ROLL_CALL, HOROVOD_START_TIMEOUT="8")

    assert ended.exit_code != 0
    assert "these ranks have not come: 2" in ended.stderr
