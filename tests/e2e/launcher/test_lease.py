# SPDX-License-Identifier: Apache-2.0
"""A launcher or an agent that falls silent, over a remote shell that stays on this machine."""

from __future__ import annotations

import os
import signal
import time

import pytest
import wording
from support.processes import below, process, wait_until_ended, wait_until_none
from test_signals import wait_for_state

BEGUN = 0.5  # seconds; on this machine the lease begins a tenth of a second after the start


@pytest.fixture(params=["elsewhere", "localhost"])
def host(request):
    return request.param


@pytest.fixture
def remote(tmp_path, monkeypatch, host):
    """Flags for a host, this machine or another one for horovodrun, with a lease of 2 s."""
    if host == "localhost":
        return ("-np", 1, "--lease", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where the agent is put
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    shell.chmod(0o755)
    return ("-np", 1, "-H", "elsewhere:1", "--remote-shell", str(shell), "--lease", 2)


def test_ctrl_z_suspends_the_lease(launcher, remote):
    script = "echo ready; for i in 1 2 3 4 5; do sleep 0.2; done; echo done"
    with launcher.start(*remote, "sh", "-c", script, process_group=0) as job:
        job.wait_for(b"ready")
        job.signal(signal.SIGTSTP)
        wait_for_state(job.process.pid, "T")
        time.sleep(3)
        job.signal(signal.SIGCONT)
        ended = job.end()

    assert ended.code == 0
    assert ended.lines[-1] == "[0]<stdout>:done"


def test_a_stop_of_the_launcher_is_a_pause_for_ranks_of_its_machine(launcher):
    script = "echo ready; sleep 3; echo done"
    with launcher.start("-np", 1, "--lease", 1, "sh", "-c", script) as job:
        job.wait_for(b"ready")
        time.sleep(BEGUN)
        job.signal(signal.SIGSTOP)
        wait_for_state(job.process.pid, "T")
        time.sleep(4)
        job.signal(signal.SIGCONT)
        ended = job.end()

    assert (ended.code, ended.lines[-1]) == (0, "[0]<stdout>:done"), ended.err
    (said,) = [line for line in ended.said if "lease" in line]
    assert wording.LEASE_RESTED in said


@pytest.mark.parametrize("host", ["elsewhere"], indirect=True)
def test_a_launcher_that_is_stopped_for_longer_than_the_lease_has_no_ranks_left(launcher, remote):
    with launcher.start(*remote, "sh", "-c", "echo $$; exec sleep 60", process_group=0) as job:
        job.wait_until(lambda: b"\n" in job.text["out"], "the rank's pid")
        rank = int(bytes(job.text["out"]).decode().rpartition(":")[2])
        time.sleep(BEGUN)
        job.signal(signal.SIGSTOP)
        # The lease, TERM and KILL, a busy machine.
        wait_until_none(lambda: process(rank), 2 + 1 + 1)
        job.signal(signal.SIGCONT)
        ended = job.end()

    assert ended.code == 125
    assert any(wording.AGENT_ALONE.format(seconds=2) in line for line in ended.said)
    lost = wording.line(wording.beginning(wording.LOST_AGENT))
    assert any(line.startswith(lost) for line in ended.said)


def test_a_pause_of_all_processes_ends_no_job(launcher):
    script = "echo $PPID; sleep 3; echo done"
    with launcher.start("-np", 1, "--lease", 2, "sh", "-c", script) as job:
        job.wait_until(lambda: b"\n" in job.text["out"], "the agent's pid")
        agent = int(bytes(job.text["out"]).decode().rpartition(":")[2])
        paused = (agent, process(agent).parent, job.process.pid)
        time.sleep(BEGUN)
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(4)
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
        ended = job.end()

    assert (ended.code, ended.lines[-1]) == (0, "[0]<stdout>:done"), ended.err


def test_an_agent_that_says_nothing_is_lost_with_the_lease(launcher, remote, host):
    # The child hides: forked twice, in a new session, TERM ignored.
    hides = (
        "(setsid sh -c 'trap \"\" TERM; exec sleep 1000' >&- 2>&- &); echo $PPID $$; exec sleep 60"
    )
    with launcher.start(*remote, "sh", "-c", hides) as job:
        job.wait_until(lambda: b"\n" in job.text["out"], "the agent's pid")
        agent, rank = map(int, bytes(job.text["out"]).decode().rpartition(":")[2].split())
        time.sleep(BEGUN)
        guard = process(agent).parent
        children = [one.pid for one in below(guard)]
        os.kill(agent, signal.SIGSTOP)
        began = time.monotonic()
        wait_until_ended((guard, *children), 2 + 1)  # the lease, and a second more
        ended = job.end()

    assert {agent, rank} < set(children) and len(children) == 3
    assert ended.code == 125
    assert 1 < time.monotonic() - began < 5
    silence = wording.NO_WORD.format(seconds=2)
    assert wording.line(wording.LOST_AGENT, host=host, why=silence) in ended.said
    assert wording.line(wording.LOST_RANKS, ranks="0") in ended.said


def test_no_host_is_lost_while_nobody_reads_standard_output(launcher, remote):
    script = "yes $(printf %01000d 0) | head -n 16000; echo done"  # 16 MB
    with launcher.start(*remote, "sh", "-c", script) as job:
        time.sleep(3 * 2)  # three leases; by the first the ranks cannot write any more
        assert job.process.poll() is None
        ended = job.end()

    assert (ended.code, ended.said) == (0, [])
    assert ended.lines[-1] == "[0]<stdout>:done" and len(ended.lines) == 16_001
