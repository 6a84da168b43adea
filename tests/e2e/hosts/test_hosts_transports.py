# SPDX-License-Identifier: Apache-2.0
"""Shared memory within each host and connections between them, in one world; and cuts."""

from __future__ import annotations

import os
import sys

import pytest
import wording

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds

SHARES = """
from horovod.common.basics import HorovodBasics
from horovod.common.operations import barrier

basics = HorovodBasics()
basics.init()
barrier("first")
mapped = "memfd:horovod" in open("/proc/self/maps").read()
print("shares" if mapped else "connects", flush=True)
"""

# In rank order each 1 is lost beside 2^24; the two of the second host together are not.
ORDER = """
import array, ctypes
from horovod.common import operations
from horovod.common.basics import HorovodBasics
from horovod.common.library import library

basics = HorovodBasics()
basics.init()
values = array.array("f", [2.0**24 if basics.rank() == 0 else 1.0]) * 100_000
memory = (ctypes.c_char * (4 * len(values))).from_buffer(values)
tensor = operations.make_tensor(
    ctypes.addressof(memory), (len(values),), library.enum("HVD_FLOAT32")
)
request = operations.make_request("sum", operations.ALLREDUCE, tensor, tensor)
request.reduce_op = library.enum("HVD_SUM")
operations.run(request, memory)
print(*(int(value - 2**24) for value in set(values)), flush=True)
"""

# The ranks of the first host sum up on their own; each waits for the other one in turn, asleep.
LATE = """
import sys, time
import numpy
import horovod.numpy as hvd

pair = hvd.ProcessSet([0, 1])
hvd.init(process_sets=[pair])
for turn in range(4):
    values = numpy.ones(int(sys.argv[1]), numpy.float32)
    if pair.included():
        if hvd.rank() == turn % 2:
            time.sleep(0.3)
            print("late", turn, time.time(), flush=True)
        total = hvd.allreduce(values, op=hvd.Sum, name="late", process_set=pair)
        assert (total == 2).all()
        print("done", turn, time.time(), flush=True)
"""

# The cut comes once both are ready, and before they exchange anything else.
CUT = """
import time
from horovod.common.basics import HorovodBasics
from horovod.common.operations import barrier

basics = HorovodBasics()
basics.init()
barrier("first")
print("ready", flush=True)
time.sleep(2)
start = time.monotonic()
try:
    barrier("second")
except Exception as error:
    print("lost", round(time.monotonic() - start), error, flush=True)
    raise SystemExit(5)
print("done", flush=True)
"""


def environment(**more: str) -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | more


def words(job) -> list[str]:
    """What each rank printed, in the order of the ranks."""
    return [line.split(":", 1)[1] for line in sorted(job.lines)]


@pytest.mark.parametrize(("operations", "word"), [("gloo", "shares"), ("tcp", "connects")])
def test_ranks_of_a_host_share_memory_beside_the_connections(cluster, operations, word):
    hosts = cluster(2)
    hosts.head.path("/root/ranks.py").write_text(SHARES)

    job = hosts.run(
        *("-np", 4, "-H", "h1:2,h2:2", sys.executable, "/root/ranks.py"),
        env=environment(HOROVOD_CPU_OPERATIONS=operations),
    )

    assert job.code == 0, job
    assert words(job) == [word] * 4


def test_sums_of_several_hosts_are_in_rank_order_where_that_is_asked_for(cluster):
    hosts = cluster(2)
    hosts.head.path("/root/order.py").write_text(ORDER)
    one_rank_asks = 'test $HOROVOD_RANK != 3 || export HOROVOD_DETERMINISTIC=1; "$@"'
    line = ("-np", 4, "-H", "h1:2,h2:2")
    program = (sys.executable, "/root/order.py")

    by_hosts = hosts.run(*line, *program, env=environment())
    in_rank_order = hosts.run(*line, "sh", "-c", one_rank_asks, "sh", *program, env=environment())

    assert (by_hosts.code, words(by_hosts)) == (0, ["2"] * 4), by_hosts
    assert (in_rank_order.code, words(in_rank_order)) == (0, ["0"] * 4), in_rank_order


@pytest.mark.parametrize("elements", [500, 2_000_000])
def test_a_rank_that_sleeps_is_woken_by_its_hosts_memory(cluster, elements):
    hosts = cluster(2)
    hosts.head.path("/root/late.py").write_text(LATE)

    job = hosts.run(
        *("-np", 3, "-H", "h1:2,h2:1", "--timeout", 20),
        *(sys.executable, "/root/late.py", elements),
        env=environment(),
    )

    assert job.code == 0, job
    begun = {line.split()[1]: float(line.split()[2]) for line in words(job) if "late" in line}
    ended = [line.split()[1:] for line in words(job) if "done" in line]
    assert len(ended) == 8, job
    assert all(float(end) - begun[turn] < 1 for turn, end in ended), job


def test_a_host_whose_ranks_cannot_share_memory_uses_connections(cluster):
    hosts = cluster(2)
    hosts.head.path("/root/ranks.py").write_text(SHARES)
    # In a new PID namespace rank 3 cannot see local rank 0's process.
    wrap = f'[ $HOROVOD_RANK = 3 ] && set -- unshare -pf "$@"; exec "$@" {sys.executable}'
    program = ("sh", "-c", f"{wrap} /root/ranks.py", "sh")

    job = hosts.run("-np", 4, "-H", "h1:2,h2:2", *program, env=environment())

    assert job.code == 0, job
    assert words(job) == ["shares", "shares", "connects", "connects"], job
    warning = wording.NO_SHARED_MEMORY.format(host="h2")
    assert job.err.decode().count(warning) == 1, job


@pytest.mark.parametrize(
    ("seconds", "lease"), [(None, 4), (1, 4), (5, 30)], ids=["for good", "for a moment", "for 5 s"]
)
def test_a_cut_between_two_hosts_that_the_launcher_reaches(cluster, seconds, lease):
    hosts = cluster(3)
    hosts.head.path("/root/ranks.py").write_text(CUT)
    h2 = hosts.lab.hosts[1]
    rules = (
        "table inet cut { chain in { type filter hook input priority 0; "
        "ip saddr 10.77.0.4 drop; ip6 saddr fd77::4 drop; }; }"
    )

    with hosts.start(
        *("-np", 2, "-H", "h2:1,h3:1", "--lease", lease, sys.executable, "/root/ranks.py"),
        env=environment(),
    ) as running:
        running.wait_until(lambda: running.text["out"].count(b"ready") == 2, "ready ranks")
        h2.run("nft", "-f", "-", stdin=None, input=rules).check_returncode()
        if seconds:
            h2.run("sh", "-c", f"sleep {1 + seconds}; nft delete table inet cut")
        job = running.end()

    if seconds:
        assert job.code == 0, job
        return
    assert job.code == 5, job
    lost = [line for line in job.lines if ":lost" in line]
    assert lost, job
    for line in lost:
        assert "h2 (10.77.0.3)" in line and "h3 (10.77.0.4)" in line, line
        assert wording.NO_ROUTE in line, line
        assert int(line.split()[1]) <= 8, line
    assert wording.NO_ROUTE in "\n".join(job.said), job
