# SPDX-License-Identifier: Apache-2.0
"""Sixteen hosts, one random fault in each round: the culprit is named and nobody is left.

Two rounds in CI; `scripts/hosts.sh` runs as many as one likes (HVD_HOST_ROUNDS, HVD_HOST_SEED).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest
from cluster import slots

COUNT = 16
LEASE = 3
GRACE = 1
RANK = "(setsid sh -c 'trap \"\" TERM; env -i sleep 1000 &' &); sleep 1001 & echo ready; wait"
FIRST = int(os.environ.get("HVD_HOST_SEED", "1"))
ROUNDS = int(os.environ.get("HVD_HOST_ROUNDS", "2"))


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_sshd(host) -> None:
    first, *sessions = [one.pid for one in host.find("sshd")]
    assert first and sessions
    signal_all(sessions, signal.SIGKILL)


def end_rank(host) -> None:
    (rank, *_) = [one.pid for one in host.find("sh") if one.command[-1] == RANK]
    os.kill(rank, signal.SIGKILL)


FAULTS = {
    "rank": end_rank,
    "guard": lambda host: os.kill(host.find("hvd-agent")[0].pid, signal.SIGKILL),
    "agent": lambda host: os.kill(host.find("hvd-agent")[1].pid, signal.SIGKILL),
    "guard drained": lambda host: os.kill(host.find("hvd-agent")[0].pid, signal.SIGTERM),
    "agent drained": lambda host: os.kill(host.find("hvd-agent")[1].pid, signal.SIGTERM),
    "hang": lambda host: os.kill(host.find("hvd-agent")[1].pid, signal.SIGSTOP),
    "sshd": end_sshd,
    "host": lambda host: host.kill(),
    "power": lambda host: host.crash(),
    "cable": lambda host: host.cut(),
}
NEEDS_LEASE = {"hang", "power", "cable"}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + ROUNDS))
def test_a_random_fault_on_one_of_sixteen_hosts(cluster, seed):
    dice = random.Random(seed)
    name = dice.choice(sorted(FAULTS))
    hosts = cluster(COUNT)
    victim = dice.choice(hosts.hosts[1:])
    each = dice.choice([1, 2])
    flags = ("--lease", LEASE, "--grace", GRACE, "-H", slots(hosts.hosts, each))

    with hosts.start("-np", COUNT * each, *flags, "sh", "-c", RANK) as job:
        ready = COUNT * each
        job.wait_until(lambda: job.text["out"].count(b"ready\n") == ready, "all ranks")
        time.sleep(dice.uniform(0, 0.5))
        began = time.monotonic()
        FAULTS[name](victim)
        ended = job.end()
        took = time.monotonic() - began

    what = f"{name} on {victim.name}: {ended.err[-2000:]!r}"
    said = "\n".join(ended.said)
    assert ended.code == (137 if name == "rank" else 125), what
    assert victim.name in said, what
    # Finding it, ending the ranks, a new connection that looks after what is left, a busy machine.
    assert took < (LEASE if name in NEEDS_LEASE else 0) + GRACE + 1 + 3 + 4, what
    hosts.wait_until_clean(1, [host for host in hosts.hosts if host is not victim])
    hosts.wait_until_clean(LEASE + 1, [victim], but_for="sshd" if name == "cable" else "")
