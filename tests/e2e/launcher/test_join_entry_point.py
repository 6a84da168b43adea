# SPDX-License-Identifier: Apache-2.0
"""`horovodrun --join` as the entry point of a container: PID 1, which the kernel spares signals."""

from __future__ import annotations

import os
import secrets
import signal

import pytest
import wording
from joining import TELL, running
from support.processes import children_of


def child_of(pid: int) -> int:
    (child,) = children_of(pid)
    return child.pid


def test_the_entry_point_of_a_container_that_is_asked_to_end_ends_its_ranks(meeting, own_pids):
    sleep = f"sleep 97.{secrets.randbelow(10**8):08}"
    job = meeting.listen("-np", 2, "-H", "a:2", "sh", "-c", f"echo up; exec {sleep}")
    joiner = meeting.join("a", prefix=own_pids)
    job.wait_until(lambda: job.text["out"].count(b"up") == 2, "two ranks")
    assert len(running(sleep)) == 2

    os.kill(child_of(joiner.process.pid), signal.SIGTERM)  # as a kubelet does
    left = joiner.end()

    said = job.end().stderr

    assert left.code == 143, left.err
    assert running(sleep) == []
    assert wording.AGENT_TOLD_TO_END in said


@pytest.mark.parametrize("stage", ["a name", "a launcher", "other hosts"])
def test_the_entry_point_of_a_container_can_be_ended_while_it_waits(
    meeting, launcher, token, own_pids, stage
):
    if stage == "other hosts":
        job = meeting.listen("-np", 2, "-H", "a:1,b:1", *TELL)
        joiner = meeting.join("a", prefix=own_pids)
        job.wait_for(wording.HAS_JOINED.format(host="a").encode(), "err")
        end(joiner)
        job.wait_for(wording.LEFT_EARLY.encode(), "err")
        return
    where = "no-such-host.invalid:4" if stage == "a name" else "127.0.0.1:4"
    flags = ("--join", where, "--join-token-file", token)
    with launcher.start(*flags, prefix=own_pids) as joiner:
        joiner.wait_for(wording.IS_WAITING.encode(), "err")
        end(joiner)


def end(joiner) -> None:
    os.kill(child_of(joiner.process.pid), signal.SIGTERM)
    assert joiner.end().code == 143
