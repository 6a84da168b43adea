# SPDX-License-Identifier: Apache-2.0
"""A launcher or an agent that falls silent, over a remote shell that stays on this machine."""

from __future__ import annotations

import os
import signal
import time

import pytest
from test_signals import wait_for_state


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """Flags for a host that is another one for horovodrun, with a lease of 2 s."""
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


def test_a_launcher_that_is_stopped_for_longer_than_the_lease_has_no_ranks_left(launcher, remote):
    with launcher.start(*remote, "sh", "-c", "echo $$; exec sleep 60", process_group=0) as job:
        job.wait_until(lambda: b"\n" in job.text["out"], "the rank's pid")
        rank = int(bytes(job.text["out"]).decode().rpartition(":")[2])
        job.signal(signal.SIGSTOP)
        deadline = time.monotonic() + 2 + 1 + 1  # the lease, TERM and KILL, a busy machine
        while os.path.exists(f"/proc/{rank}"):
            assert time.monotonic() < deadline, "the rank outlives the lease"
            time.sleep(0.02)
        job.signal(signal.SIGCONT)
        ended = job.end()

    assert ended.code == 125
    assert any("has heard nothing of horovodrun for 2 s" in line for line in ended.said)
    assert any(line.startswith("horovodrun: lost the agent on host") for line in ended.said)


def test_an_agent_that_says_nothing_is_lost_with_the_lease(launcher, remote):
    with launcher.start(*remote, "sh", "-c", "echo $PPID; exec sleep 60") as job:
        job.wait_until(lambda: b"\n" in job.text["out"], "the agent's pid")
        agent = int(bytes(job.text["out"]).decode().rpartition(":")[2])
        os.kill(agent, signal.SIGSTOP)
        began = time.monotonic()
        ended = job.end()

    assert ended.code == 125
    assert 1 < time.monotonic() - began < 5
    said = "horovodrun: lost the agent on host elsewhere: no word from it for 2 s (--lease)"
    assert said in ended.said
    assert "horovodrun: lost with their host: ranks 0" in ended.said
