# SPDX-License-Identifier: Apache-2.0
"""Worlds over several hosts, as far as the launchers say; in truth all are this one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import wording
from commands import Ended
from external.worlds import ROLL_CALL, environment, run, world_of

TORCHRUN = str(Path(sys.executable).parent / "torchrun")


def check_two_hosts(ended: list[Ended]) -> None:
    assert all(each.code == 0 for each in ended), "\n".join(map(str, ended))
    world = world_of(next(each for each in ended if "[{" in each.stdout))
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert [rank["cross"] for rank in world] == [[0, 2], [0, 2], [1, 2], [1, 2]]


def step(rank: int, **variables: str) -> Ended:
    """A task of a Slurm step on two nodes, without Slurm."""
    task = environment(
        SLURM_JOB_ID=str(os.getpid()),  # the port follows from it
        SLURM_STEP_ID="0",
        SLURM_STEP_NUM_TASKS="4",
        SLURM_STEP_TASKS_PER_NODE="2(x2)",
        SLURM_STEP_NODELIST="localhost,other",
        SLURM_PROCID=str(rank),
        SLURM_NODEID=str(rank // 2),
        SLURM_LOCALID=str(rank % 2),
        **variables,
    )
    return run(*ROLL_CALL, env=task)


def steps(ranks: list[int], **variables: str) -> list[Ended]:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda rank: step(rank, **variables), ranks))


@pytest.fixture
def munge_socket(tmp_path: Path) -> Iterator[str]:
    """The socket of a munged of its own."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 128)
    key.chmod(0o400)
    files = [f"--{name}={tmp_path / name}" for name in ("socket", "pid-file", "seed-file")]
    daemon = subprocess.Popen(
        ["/usr/sbin/munged", "--foreground", "--force", f"--key-file={key}", *files],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert daemon.stderr
        line = next((line for line in daemon.stderr if "Created socket" in line), None)
        assert line, "munged did not start"
        yield str(tmp_path / "socket")
    finally:
        daemon.terminate()
        daemon.communicate(timeout=20)


def test_torchrun_on_two_nodes_says_that_nobody_is_authenticated() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    nodes = ("--nnodes", "2", "--nproc-per-node", "2")
    master = ("--master-addr", "127.0.0.1", "--master-port", port)
    with ThreadPoolExecutor() as pool:
        ended = list(
            pool.map(
                lambda node: run(
                    TORCHRUN, *nodes, *master, "--node-rank", node, "--no-python", *ROLL_CALL
                ),
                ("0", "1"),
            )
        )

    check_two_hosts(ended)
    assert sum(wording.NO_KEY_OF_TORCHRUN in each.stderr for each in ended) == 1


def test_tasks_of_a_step_prove_their_user_by_munge(munge_socket: str) -> None:
    check_two_hosts(steps([3, 2, 1, 0], HOROVOD_MUNGE_SOCKET=munge_socket))


def test_tasks_of_a_step_prove_themselves_by_a_key_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)

    check_two_hosts(steps([0, 1, 2, 3], HOROVOD_JOB_KEY_FILE=str(key)))


def test_without_munge_and_key_the_remedies_are_named() -> None:
    ended = step(0, HOROVOD_MUNGE_SOCKET="/nowhere/munge")

    assert ended.code != 0
    assert wording.MUNGE_OR_KEY in ended.stderr


def test_ranks_that_do_not_come_are_named_by_all(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)

    # Time enough for both that come, on a busy machine too.
    ended = steps([0, 2], HOROVOD_JOB_KEY_FILE=str(key), HOROVOD_START_TIMEOUT="8")

    assert all(each.code != 0 for each in ended)
    for each in ended:
        assert wording.NOT_COME.format(ranks="1,3") in each.stderr, each


def test_who_has_the_ports_that_the_user_chose_is_named(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = step(0, HOROVOD_JOB_KEY_FILE=str(key), HOROVOD_PORT_RANGE=f"{port}-{port}")

    assert ended.code != 0
    assert wording.CANNOT_LISTEN.format(port=port) in ended.stderr, ended
    holder = wording.PORT_HOLDER.format(port=port, pid=os.getpid(), user="")
    assert wording.beginning(wording.PORTS_TAKEN) + holder in ended.stderr, ended
