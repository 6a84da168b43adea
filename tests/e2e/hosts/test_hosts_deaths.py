# SPDX-License-Identifier: Apache-2.0
"""What waits for a rank that is gone fails within a second, though its connections do not tell."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time

import pytest
import wording

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds

# Rank 2 is killed once the others wait for it. A child that it forked past the runtime's handlers,
# as a data loader may be, holds its connections open.
KILLED = """
import ctypes, os, signal, time
from horovod.common.basics import HorovodBasics
from horovod.common.operations import barrier

basics = HorovodBasics()
basics.init()
barrier("first")
if basics.rank() == 2:
    if ctypes.CDLL(None)._Fork() == 0:
        ctypes.CDLL(None).pause()
    time.sleep(0.5)
    print("dies", time.time(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    barrier("second")
except Exception as error:
    print("lost", time.time(), error, flush=True)
    raise SystemExit(5)
"""

# The other ranks form a world without the dead rank, or the silent host, and go on.
GOING_ON = """
import os, sys, time
from horovod.common.basics import HorovodBasics
from horovod.common.operations import barrier

basics = HorovodBasics()
basics.init()
try:
    barrier("first")
    print("ready", flush=True)
    if basics.rank() == 2:
        if sys.argv[1:] == ["silent"]:
            time.sleep(60)
        os._exit(3)  # the others may be in the first barrier still
    barrier("second")
except Exception as error:
    print("lost", time.time(), error, flush=True)
old = basics.rank()
basics.shutdown()
basics.init()
barrier("second")
numbers = (basics.size(), basics.local_rank(), basics.local_size())
across = (basics.cross_rank(), basics.cross_size())
print("place", old, f"{basics.rank()} of {numbers} {across}", flush=True)
"""

SILENT = """
import time
from horovod.common.basics import HorovodBasics
from horovod.common.operations import barrier

basics = HorovodBasics()
basics.init()
barrier("first")
print("ready", flush=True)
if basics.rank() == 2:
    time.sleep(60)
try:
    barrier("second")
except Exception as error:
    print("lost", time.time(), error, flush=True)
    raise SystemExit(5)
"""


@pytest.fixture
def start(cluster):
    """start(program, "h1:2,h2:2", flags...): a job on three hosts that goes on after a failure."""
    hosts = cluster(3)

    def run(program: str, where: str, np: int, *flags: object, argument: str = ""):
        hosts.head.path("/root/ranks.py").write_text(program)
        flags = ("-np", np, "-H", where, "--on-failure", "wait", *flags)
        env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        summary = ("--summary", "/root/summary.json")
        command = (sys.executable, "/root/ranks.py", *argument.split())
        return hosts.start(*flags, *summary, *command, env=env)

    run.hosts = hosts
    return run


def words(job, word: str) -> list[tuple[float, str]]:
    """When and with which rest of the line each rank said the word."""
    found = [line.split(":", 1)[1].split(" ", 2) for line in job.lines if f":{word} " in line]
    return [(float(parts[1]), parts[2] if len(parts) > 2 else "") for parts in found]


def test_a_killed_rank_is_missed_at_once_though_its_child_holds_its_connections(start):
    with start(KILLED, "h1:2,h2:1,h3:1", 4) as running:
        job = running.end()

    ((died, _),) = words(job, "dies")
    lost = words(job, "lost")
    assert len(lost) == 3, job
    assert all(when - died < 1 for when, _ in lost), (died, lost)
    died = wording.pattern(wording.PEER + wording.HAS_DIED, rank=2, pid=r"\d+", host="h2")
    assert all(re.search(died, why) for _, why in lost), lost
    assert wording.culprit(2, host="h2", local_rank=0) in "\n".join(job.said)
    assert job.code == 137
    classes = [rank["class"] for rank in start.hosts.summary_of(job)["ranks"]]
    assert classes == ["lost_peer", "lost_peer", "culprit", "lost_peer"]
    start.hosts.wait_until_clean(2)


def places(job) -> dict[float, str]:
    """The place of each rank in its second world, by its number in the first."""
    return dict(words(job, "place"))


def test_survivors_on_several_hosts_are_a_world_with_places_of_its_own(start):
    with start(GOING_ON, "h1:2,h2:1,h3:1", 4) as running:
        job = running.end()

    assert places(job) == {
        0: "0 of (3, 0, 2) (0, 2)",
        1: "1 of (3, 1, 2) (0, 1)",
        3: "2 of (3, 0, 1) (1, 2)",
    }, job
    assert job.code == 3
    start.hosts.wait_until_clean(2)


def test_a_silent_host_is_no_part_of_the_next_world(start):
    with start(GOING_ON, "h1:2,h2:1", 3, "--lease", 2, argument="silent") as running:
        running.wait_until(lambda: running.text["out"].count(b"ready\n") == 3, "three times ready")
        start.hosts.hosts[1].cut()
        job = running.end()

    assert places(job) == {0: "0 of (2, 0, 2) (0, 1)", 1: "1 of (2, 1, 2) (0, 1)"}, job
    assert job.code == 125


def test_ranks_that_wait_for_a_silent_host_are_told_when_its_lease_ends(start):
    with start(SILENT, "h1:1,h2:1,h3:1", 3, "--lease", 2) as running:
        running.wait_until(lambda: running.text["out"].count(b"ready\n") == 3, "three times ready")
        start.hosts.hosts[2].cut()
        began = time.time()
        job = running.end()

    lost = words(job, "lost")
    assert len(lost) == 2, job
    assert all(1 < when - began < 4 for when, _ in lost), (began, lost)
    why = wording.PEER + wording.LOST_WITH_HOST
    why = wording.pattern(why, rank=2, pid=r"\d+", host="h3", seconds=2)
    assert all(re.search(why, each) for _, each in lost), lost
    assert "h3" in "\n".join(job.said) and job.code == 125
    culprit = start.hosts.summary_of(job)["culprit"]
    assert (culprit["host"], culprit["rank"]) == ("h3", None)


@pytest.mark.parametrize("stayer", [0, 1])
def test_a_c_program_that_returns_from_main_harms_no_rank_of_another_host(
    cluster, return_from_main, stayer
):
    hosts = cluster(2)
    program = hosts.head.path("/root/return_from_main")  # a home that the hosts share
    shutil.copy(return_from_main, program)

    job = hosts.run("-np", 2, "-H", "h1,h2", "/root/return_from_main", stayer, 1_000_000)

    assert job.code == 0 and wording.HAS_DIED not in job.stderr, job
    assert job.lines_of(stayer) == ["stayed"], job


EARLY = """
from horovod.common.basics import HorovodBasics
from horovod.common.operations import barrier

basics = HorovodBasics()
basics.init()
barrier("first")
if basics.rank() == 1:
    raise SystemExit(0)
barrier("second")
"""


def assert_others_waited_for_rank_1(summary):
    classes = [rank["class"] for rank in summary["ranks"]]
    assert classes.pop(1) == "culprit"
    # The first who waits ends the job, perhaps before another has come to where it would wait.
    assert "lost_peer" in classes and set(classes) <= {"lost_peer", "stopped"}


def test_a_rank_that_exits_with_0_while_others_wait_for_it_is_the_culprit(cluster):
    hosts = cluster(3)
    hosts.head.path("/root/early.py").write_text(EARLY)
    flags = ("-np", 4, "-H", "h1:1,h2:1,h3:2", "--summary", "/root/summary.json", "--grace", 2)
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}

    job = hosts.run(*flags, sys.executable, "/root/early.py", env=env)

    assert job.code == 1, job.err
    assert wording.culprit(1, host="h2", local_rank=0) in "\n".join(job.said)
    summary = hosts.summary_of(job)
    assert summary["reason"] == "left_early"
    assert_others_waited_for_rank_1(summary)
    hosts.wait_until_clean(2)


ABSENT = """
import os
from horovod.common.basics import HorovodBasics

if os.environ["HOROVOD_RANK"] == "1":
    raise SystemExit(0)
HorovodBasics().init()
"""


@pytest.mark.parametrize("ranks", ["h1:3", "h1:1,h2:1,h3:1"], ids=["one-host", "three-hosts"])
def test_a_rank_that_exits_before_init_while_others_wait_for_it_is_the_culprit(cluster, ranks):
    hosts = cluster(3)
    hosts.head.path("/root/absent.py").write_text(ABSENT)
    flags = ("-np", 3, "-H", ranks, "--summary", "/root/summary.json", "--grace", 2)
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}

    job = hosts.run(*flags, sys.executable, "/root/absent.py", env=env)

    assert job.code == 1, job.err
    assert job.seconds < 15  # HOROVOD_START_TIMEOUT is 30
    assert wording.culprit(1) in "\n".join(job.said)
    assert wording.NEVER_IN_INIT in job.stderr
    summary = hosts.summary_of(job)
    assert summary["reason"] == "left_early"
    assert_others_waited_for_rank_1(summary)
    hosts.wait_until_clean(2)


LATE = """
import os, signal, sys, time
from horovod.common.basics import HorovodBasics

if os.environ["HOROVOD_RANK"] in sys.argv[1].split(","):
    if sys.argv[2] == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)
HorovodBasics().init()
"""


@pytest.mark.parametrize("ranks", ["h1:4", "h1:1,h2:1,h3:2"], ids=["one-host", "three-hosts"])
@pytest.mark.parametrize(
    ("late", "does"), [("1", "sleep"), ("0,2", "sleep"), ("3", "stop")], ids=lambda each: str(each)
)
def test_the_ranks_that_come_late_to_init_are_the_culprits(cluster, ranks, late, does):
    hosts = cluster(3)
    hosts.head.path("/root/late.py").write_text(LATE)
    flags = ("-np", 4, "-H", ranks, "--summary", "/root/summary.json", "--grace", 2)
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env["HOROVOD_START_TIMEOUT"] = "4"

    job = hosts.run(*flags, sys.executable, "/root/late.py", late, does, env=env)

    first, *others = (int(rank) for rank in late.split(","))
    place = ["h1", "h2", "h3", "h3"][first] if "h2" in ranks else "h1"
    said = "\n".join(job.said)
    assert wording.culprit(first, host=place) in said, job.err
    assert "): " + wording.beginning(wording.LATE_IN_INIT, seconds=4) in said
    assert (wording.IS_STOPPED if does == "stop" else wording.SLEEPS) in said
    if others:
        assert wording.line(wording.SAME, ranks="2") in job.said and "rank 2 (host " in said
    summary = hosts.summary_of(job)
    assert (job.code, summary["reason"]) == (1, "stalled")
    assert [summary["culprit"]["rank"], *summary["culprit"]["same_ranks"]] == [first, *others]
    waiting = {one["class"] for one in summary["ranks"] if one["rank"] not in (first, *others)}
    assert "lost_peer" in waiting and waiting <= {"lost_peer", "stopped"}
    hosts.wait_until_clean(2)
