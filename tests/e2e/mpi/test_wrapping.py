# SPDX-License-Identifier: Apache-2.0
"""horovodrun as one task of a launcher, and in front of one."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import contract
import pytest
import wording
from commands import Ended, run_command
from support.hosts.lab import tool

TASK = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}
# One write, since mpirun cuts lines where writes end.
WORLD = """
import horovod.torch as hvd
hvd.init()
print(f"world {hvd.rank()} {hvd.size()} end\\n", end="")
"""
LINES = {
    "mpirun.openmpi": ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
    "mpiexec.hydra": (),
}


@pytest.fixture(params=LINES)
def line(request: pytest.FixtureRequest) -> list[str]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return [request.param, "-np", "2", *LINES[request.param]]


def run(*command: object, **env: str) -> Ended:
    return run_command(*command, timeout=60, env={**os.environ, **env})


def test_as_one_task_it_becomes_its_command(horovodrun: Path, line: list[str]) -> None:
    pytest.importorskip("torch")

    ended = run(*line, horovodrun, sys.executable, "-c", WORLD)

    assert ended.code == 0, ended.stderr
    assert sorted(text for text in ended.stdout.splitlines() if "world" in text) == [
        "world 0 2 end",
        "world 1 2 end",
    ]


def test_a_task_has_the_contract_of_the_ranks(horovodrun: Path, line: list[str]) -> None:
    script = contract.telling("$RANK $WORLD_SIZE $LOCAL_RANK") + "; sleep 0.1"

    ended = run(*line, horovodrun, "sh", "-c", script)

    assert ended.code == 0, ended
    assert contract.told_with_more(ended.stdout) == [
        (place, f"{rank} 2 {rank}") for rank, place in enumerate(contract.of_hosts(2))
    ]


def test_a_task_is_pinned_to_its_share(horovodrun: Path, line: list[str]) -> None:
    """CPUs, and GPUs of a library that stands for the driver's."""
    fake = tool().with_name("fake_nvml.so")
    # In one write: mpirun mixes those of two ranks.
    script = (
        "import os, time; cpus = len(os.sched_getaffinity(0));"
        "print(f'on {cpus} {os.environ[\"CUDA_VISIBLE_DEVICES\"]} end\\n', end='', flush=True);"
        "time.sleep(0.1)"
    )
    env = {"HOROVOD_NVML_LIBRARY": str(fake), "FAKE_NVML": "gpus"}

    ended = run(*line, horovodrun, "--gpu-bind", "env", sys.executable, "-c", script, **env)

    assert ended.code == 0, ended.stderr
    cpus = len(os.sched_getaffinity(0)) // 2
    assert sorted(line for line in ended.stdout.splitlines() if line.startswith("on")) == [
        f"on {cpus} {rank} end" for rank in range(2)
    ]


def test_in_front_of_an_mpirun_it_goes_to_its_program(horovodrun: Path, line: list[str]) -> None:
    ended = run(horovodrun, *line, "sh", "-c", "ps -o args= -p $PPID; sleep 0.2")

    assert ended.code == 0, ended.stderr
    assert ended.stdout.count("\n") == 2


def test_a_line_that_it_does_not_know_is_refused(horovodrun: Path) -> None:
    ended = run(horovodrun, "mpirun", "--new-option", "x", "true")

    assert ended.code == 2
    assert wording.MPIRUN_ALONE in ended.stderr


def test_the_exit_code_of_a_task_is_its_commands(horovodrun: Path) -> None:
    assert run(horovodrun, "sh", "-c", "exit 9", **TASK).code == 9
    assert run(horovodrun, "no-such-program", **TASK).code == 127


def test_a_task_gets_what_flags_set(horovodrun: Path) -> None:
    ended = run(
        horovodrun, "--env", "A=b c", "--fusion-threshold-mb", 3, "sh", "-c",
        'echo "$A" $HOROVOD_FUSION_THRESHOLD $OMPI_COMM_WORLD_RANK', **TASK,
    )  # fmt: skip

    assert ended.stdout.split() == ["b", "c", str(3 << 20), "2"]


def test_a_job_inside_of_a_world_is_refused(horovodrun: Path) -> None:
    ended = run(horovodrun, "-np", 2, "true", **TASK)

    assert ended.code == 2
    assert wording.ALREADY_RANK.format(rank=2, size=4, launcher="mpirun") in ended.stderr


def test_a_job_inside_of_a_world_of_one_runs(horovodrun: Path) -> None:
    one = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}

    ended = run(horovodrun, "-np", 2, "sh", "-c", "echo $HOROVOD_RANK", **one)

    assert ended.code == 0
    assert ended.stdout.count("<stdout>:") == 2


def test_the_launcher_that_counts_can_be_named(horovodrun: Path) -> None:
    """And is not passed on to the ranks, whose launcher is horovodrun."""
    script = "echo $HOROVOD_RANK $HOROVOD_LAUNCHER end"

    ended = run(horovodrun, "-np", 2, "sh", "-c", script, HOROVOD_LAUNCHER="none", **TASK)

    assert ended.code == 0, ended.stderr
    assert sorted(line[-5:] for line in ended.stdout.splitlines()) == ["0 end", "1 end"]


def test_a_task_that_cannot_be_is_refused(horovodrun: Path) -> None:
    ended = run(horovodrun, "true", OMPI_COMM_WORLD_RANK="2")

    assert ended.code == 2
    assert wording.MISSING_VARIABLE.format(name="OMPI_COMM_WORLD_SIZE") in ended.stderr
