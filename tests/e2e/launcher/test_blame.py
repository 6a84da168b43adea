# SPDX-License-Identifier: Apache-2.0
"""Culprit and victims are told apart by what is known, not by who exited first.

The ranks are scripts that speak to their agent as the runtime does.
"""

from __future__ import annotations

import shlex
import sys

import pytest
import wording
from commands import summary_of

RANK = """
import os, socket, struct, sys, time

rank = int(os.environ["HOROVOD_RANK"])
agent = socket.socket(socket.AF_UNIX)
agent.connect("\\0" + os.environ["HOROVOD_AGENT_SOCKET"])

def send(kind, body):
    agent.sendall(struct.pack("<IB", 1 + len(body), kind) + body)

def text(value):
    return struct.pack("<I", len(value)) + value.encode()

send(1, struct.pack("<H", 5) + text(os.environ["HOROVOD_JOB_ID"]) + struct.pack("<i", rank))
assert agent.recv(100)[4] == 129, "no welcome"

def raised(message):
    send(4, struct.pack("<Bi", 0, -1) + text("Traceback (most recent call last):\\n" + message))

def lost(peer):
    send(4, struct.pack("<Bi", 1, peer) + text(f"lost rank {peer}"))

def stalled(peer):
    send(4, struct.pack("<Bi", 5, peer) + text("rank 0 has waited for 9 s"))

def gives_up():
    send(4, struct.pack("<Bi", 6, -1) + text("within 9 s (HOROVOD_START_TIMEOUT)"))

def put(key, value):
    send(2, struct.pack("<I", 7) + text(key) + text(value))

def get(key):
    send(3, struct.pack("<I", 8) + text(key))

def read():
    size, kind = struct.unpack("<IB", agent.recv(5, socket.MSG_WAITALL))
    return kind, agent.recv(size - 1, socket.MSG_WAITALL)
"""


@pytest.fixture
def judged(launcher, tmp_path):
    """judged(np, script, after): how a job of such ranks ended, and its summary.

    With `after`, a rank is a shell that runs the script and then that.
    """

    def run(np: int, script: str, after: str = ""):
        program = tmp_path / "rank.py"
        program.write_text(RANK + script)
        summary = tmp_path / "summary.json"
        command = (sys.executable, "-S", "-E", str(program))
        if after:
            command = ("sh", "-c", f"{shlex.join(command)} {after}")
        job = launcher.run("-np", np, "--bind-to", "none", "--summary", summary, *command)
        return job, summary_of(summary, job)

    return run


def classes(summary: dict) -> list[str]:
    return [rank["class"] for rank in summary["ranks"]]


def test_an_exception_is_to_blame_even_when_its_victims_exit_first(judged):
    job, summary = judged(
        3,
        """
if rank == 1:
    raised("ValueError: boom")
    time.sleep(1)
    sys.exit(1)
time.sleep(0.3)
lost(1)
put(f"lost/{rank}", "")
read()
get(f"lost/{2 - rank}")  # the first to exit ends the job: not before both have said it
read()
sys.exit(9)
""",
    )

    assert job.code == 1
    assert summary["culprit"]["rank"] == 1
    assert summary["culprit"]["message"] == "ValueError: boom"
    assert classes(summary) == ["lost_peer", "culprit", "lost_peer"]
    assert job.said[-1] == wording.line(wording.LOST_PEER, ranks="0,2")
    assert wording.line(wording.REPORTED, why="ValueError: boom") in job.said


def test_a_rank_that_hangs_after_its_exception_is_ended(judged):
    job, summary = judged(
        2,
        """
if rank == 0:
    raised("RuntimeError: stuck")
time.sleep(50)
""",
    )

    assert job.code == 1
    assert job.seconds < 30
    assert summary["culprit"]["rank"] == 0
    assert classes(summary) == ["culprit", "stopped"]


FAILS = """
if rank == 1:
    raised("ValueError: boom")
    sys.exit(1)
"""


def test_an_exception_below_a_shell_is_the_reason_for_its_end(judged):
    job, summary = judged(3, FAILS + "time.sleep(50)", after="; exit $?")

    assert job.code == 1
    assert summary["culprit"]["rank"] == 1
    assert summary["culprit"]["message"] == "ValueError: boom"
    assert classes(summary) == ["stopped", "culprit", "stopped"]


def test_an_exception_that_a_shell_handles_ends_no_job(judged):
    job, summary = judged(2, FAILS + "time.sleep(6)", after="|| { sleep 5; echo handled; }")

    assert job.code == 0, job.err
    assert job.out.count(b"handled") == 1
    assert classes(summary) == ["ok", "ok"]


def test_a_program_below_a_shell_that_hangs_after_its_exception_is_ended(judged):
    job, summary = judged(2, 'if rank == 0: raised("stuck")\ntime.sleep(50)', after="; exit $?")

    assert job.code == 1
    assert job.seconds < 30
    assert summary["culprit"]["rank"] == 0
    assert classes(summary) == ["culprit", "stopped"]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 1, 0)])
def test_an_exception_of_all_ranks_is_told_once_whoever_is_first(judged, order):
    job, summary = judged(
        4,
        f"""
time.sleep({order}.index(rank) * 0.2)
raised("ValueError: no data")
if rank == 3:
    lost(2)
sys.exit(1)
""",
    )

    assert (job.code, summary["reason"]) == (1, "exit")
    culprit = summary["culprit"]
    assert (culprit["rank"], culprit["same_ranks"]) == (0, [1, 2, 3])
    assert (culprit["failed_ranks"], culprit["seconds_before_next"]) == (4, None)
    assert classes(summary) == ["culprit", "same", "same", "same"]
    assert job.said[-1] == wording.line(wording.SAME, ranks="1-3")


def test_a_rank_whose_own_exception_comes_after_the_culprits_has_also_failed(judged):
    job, summary = judged(
        3,
        """
time.sleep(0.3 * rank)
if rank == 2:
    time.sleep(50)
raised(f"ValueError: {rank}")
sys.exit(1 + rank)
""",
    )

    assert job.code == 1
    assert classes(summary) == ["culprit", "also_failed", "stopped"]
    assert job.said[-2:] == [
        wording.line(wording.ALSO_FAILED, ranks="1"),
        wording.line(wording.STOPPED, ranks="2"),
    ]


def test_victims_that_exit_before_the_crash_is_over_are_victims(judged):
    job, summary = judged(
        2,
        """
import signal
if rank == 0:
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGSEGV))
    time.sleep(50)
time.sleep(0.3)
lost(0)
sys.exit(1)
""",
    )

    assert job.code == 139
    assert classes(summary) == ["culprit", "lost_peer"]


def test_a_clean_exit_that_others_waited_for_is_left_early(judged):
    job, summary = judged(
        3,
        """
if rank == 2:
    sys.exit(0)
time.sleep(0.5)
lost(2)
sys.exit(5)
""",
    )

    assert job.code == 1
    assert summary["reason"] == "left_early"
    assert summary["culprit"]["rank"] == 2
    *waiting, leaver = classes(summary)
    assert leaver == "culprit"
    # The first of them ends the job, perhaps before the other has reported its lost peer.
    assert "lost_peer" in waiting and set(waiting) <= {"lost_peer", "stopped"}


def test_all_ranks_that_others_waited_for_too_long_are_culprits(judged):
    job, summary = judged(
        4,
        """
if rank == 0:
    for missing in (1, 3):
        stalled(missing)
    put("stalled", "")
if rank == 2:
    get("stalled")
    read()
if rank in (0, 2):
    lost(1)
    sys.exit(5)
time.sleep(50)
""",
    )

    assert job.code == 1
    assert summary["reason"] == "stalled"
    assert summary["culprit"]["rank"] == 1
    assert classes(summary)[1::2] == ["culprit", "same"]
    assert wording.culprit(1) in job.stderr
    assert wording.STALLED.format(why="rank 0 has waited for 9 s") in job.stderr


def test_ranks_that_others_wait_for_in_init_are_culprits_with_what_they_do(judged):
    job, summary = judged(
        4,
        """
import signal
if rank == 0:
    put("world/0/key", "")
    for key in ("two", "three"):
        read()
        get(key)
    read()
    time.sleep(0.5)  # rank 3 stops itself meanwhile
    gives_up()
    sys.exit(5)
if rank == 2:
    get("world/0/key")
    read()
    put("two", "")
if rank == 3:
    put("three", "")
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(50)
""",
    )

    assert job.code == 1
    assert summary["reason"] == "stalled"
    assert (summary["culprit"]["rank"], summary["culprit"]["same_ranks"]) == (1, [3])
    assert classes(summary) == ["lost_peer", "culprit", "stopped", "same"]
    assert wording.LATE_IN_INIT.format(seconds=9, does=wording.SLEEPS) in job.stderr
    assert job.said[-4] == wording.line(wording.SAME, ranks="3")
    assert f" {wording.IS_STOPPED}, " in job.said[-3]


def test_a_rank_whose_peers_have_all_come_to_init_blames_nobody_for_its_end(judged):
    job, summary = judged(
        2,
        """
if rank == 0:
    put("world/0/key", "")
    time.sleep(50)
get("world/0/key")
read()
gives_up()
sys.exit(5)
""",
    )

    assert (job.code, summary["culprit"]["rank"]) == (5, 1)


def test_ranks_leave_each_other_values(judged):
    job, _ = judged(
        2,
        """
if rank == 0:
    get("world/1")  # asked before it is there
    kind, body = read()
    print("got", body[-7:].decode())
else:
    time.sleep(0.5)
    put("world/1", "address")
    read()
    time.sleep(0.3)
""",
    )

    assert (job.code, job.out) == (0, b"[0]<stdout>:got address\n")
