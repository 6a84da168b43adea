# SPDX-License-Identifier: Apache-2.0
"""What of horovodrun --mpi outlives a part of an mpirun that is killed: nothing, on two hosts."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable

import pytest
from cluster import Cluster, slots

RANKS = 36  # more than 32, at which mpirun starts differently
VICTIMS = [
    ("mpirun.openmpi", 1, "orted"),
    ("mpiexec.hydra", 1, "hydra_pmi_proxy"),
    ("mpiexec.hydra", 0, "mpiexec.hydra"),
]


@pytest.mark.parametrize(("mpirun", "host", "victim"), VICTIMS)
def test_nothing_outlives_a_killed_daemon(
    cluster: Callable[..., Cluster], mpirun: str, host: int, victim: str
) -> None:
    if shutil.which(mpirun) is None:
        pytest.skip(f"{mpirun} is not installed")
    hosts = cluster(2)
    command = ("--mpi", "--grace", 1, "-np", RANKS, "-H", slots(hosts.hosts, RANKS // 2))
    rank = ("sh", "-c", "echo is up; exec sleep 60")

    with hosts.start(*command, *rank, env={"HOROVOD_MPIRUN": mpirun}) as job:
        job.wait_until(lambda: job.text["out"].count(b"is up") >= RANKS, "ranks")
        os.kill(hosts.hosts[host].find(victim)[0].pid, signal.SIGKILL)
        ended = job.end()

    assert ended.code != 0
    hosts.wait_until_clean(10)


def test_ranks_of_a_killed_daemon_get_no_grace(cluster: Callable[..., Cluster]) -> None:
    """Also where it has forked them from threads that have ended, so that the kernel tells them
    nothing. They hear no TERM, and grace is long."""
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("mpirun.openmpi is not installed")
    hosts = cluster(2)
    first, second = hosts.hosts
    where = f"{first.name}:1,{second.name}:{RANKS}"
    rank = ("sh", "-c", "trap '' TERM; echo is up; exec sleep 60")
    command = ("--mpi", "--grace", 50, "-np", RANKS + 1, "-H", where, *rank)

    with hosts.start(*command, env={"HOROVOD_MPIRUN": "mpirun.openmpi"}) as job:
        job.wait_until(lambda: job.text["out"].count(b"is up") > RANKS, "ranks")
        os.kill(second.find("orted")[0].pid, signal.SIGKILL)
        second.wait_for(lambda: not second.find("sleep"), "no rank there", 5)
        job.signal(signal.SIGKILL)
        job.end()

    hosts.wait_until_clean(10)
