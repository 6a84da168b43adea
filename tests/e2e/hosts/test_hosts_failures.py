# SPDX-License-Identifier: Apache-2.0
"""Whatever dies on whichever host, the job ends in time, says who was it, and leaves nothing.

Survivors are counted by the machine's kernel in each host's PID namespace.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time

import pytest
import wording
from cluster import slots
from jobs import only_rank
from support.memory_limit import MemoryLimit
from support.processes import state_of

# A rank with a child, and a grandchild that hides: double-forked, without an environment, in a
# new session, and ignores TERM.
HIDING = (
    "sh",
    "-c",
    "(setsid sh -c 'trap \"\" TERM; env -i sleep 1000 &' &); sleep 1001 & echo ready; wait",
)


@pytest.fixture
def started(cluster):
    """started(*flags): three hosts and a job of four ranks on them that has come up."""
    with contextlib.ExitStack() as stack:

        def start(*flags: object, command: tuple[str, ...] = HIDING):
            hosts = cluster(3)
            arguments = ("-np", 4, "-H", "h1:1,h2:2,h3:1", *flags, *command)
            job = stack.enter_context(hosts.start(*arguments))
            job.wait_until(lambda: job.text["out"].count(b"ready\n") == 4, "four times ready")
            return hosts, job

        yield start


# From a death to the end of all: --grace 1, and the second that is ours; the rest is for machines
# that do other things too. The lease would be 30 s.
IN_TIME = 1 + 1 + 4


def end_in_time(hosts, job):
    """Waits for the job's end and its last process, from now on."""
    began = time.monotonic()
    hosts.wait_until_clean(IN_TIME, but_for="horovodrun")
    ended = job.end()
    assert time.monotonic() - began < IN_TIME + 1
    return ended


def test_the_culprit_on_another_host_is_named(cluster):
    hosts = cluster(3)
    flags = ("-np", 6, "-H", slots(hosts.hosts, 2), "--summary", "/root/summary.json")

    job = hosts.run(*flags, *only_rank(3, "sleep 1; echo no data >&2; exit 7"))

    assert job.code == 7
    assert wording.culprit(3, host="h2", local_rank=1) in "\n".join(job.said)
    assert wording.line(wording.LAST_LINE, text="no data") in job.said
    assert wording.line(wording.STOPPED, ranks="0-2,4-5") in job.said
    assert hosts.summary_of(job)["culprit"]["host"] == "h2"
    hosts.wait_until_clean(1)


@pytest.mark.parametrize("command, code", [("/nowhere/train", 127), ("/etc/passwd", 126)])
def test_a_command_that_is_not_there_is_told_with_its_host(cluster, command, code):
    hosts = cluster(2)

    job = hosts.run("-np", 1, "-H", "h2:1", command)

    assert job.code == code
    assert "h2" in "\n".join(job.said) and command in "\n".join(job.said)


HERE = {"program": "/tmp/here/a"}

# The shell commands that make the file on h2, the exit code, and the words of the report. h1, where
# horovodrun runs, has no such file.
NOT_EXECUTABLE = {
    "interpreter": (
        "printf '#!/nowhere/sh\\n' > /tmp/here/a; chmod +x /tmp/here/a",
        127,
        wording.NO_INTERPRETER.format(first="/nowhere/sh", **HERE),
    ),
    "windows": (
        "printf '#!/bin/sh\\r\\n' > /tmp/here/a; chmod +x /tmp/here/a",
        127,
        wording.OF_WINDOWS,
    ),
    "permission": (
        "touch /tmp/here/a",
        126,
        wording.NO_PERMISSION.format(**HERE),
    ),
    "folder": ("mkdir /tmp/here/a", 126, wording.IS_FOLDER.format(**HERE)),
    "link": (
        "ln -s /nowhere/train /tmp/here/a",
        127,
        wording.IS_DEAD_LINK.format(target="/nowhere/train", **HERE),
    ),
    "noexec": (
        "mount -t tmpfs -o noexec none /tmp/here; cp /bin/true /tmp/here/a",
        126,
        wording.MOUNTED_NOEXEC.format(**HERE),
    ),
}


@pytest.mark.parametrize("kind", NOT_EXECUTABLE)
def test_a_file_that_one_host_cannot_execute_is_explained_by_that_host(cluster, kind):
    make, code, words = NOT_EXECUTABLE[kind]
    hosts = cluster(2)
    hosts.hosts[1].run("sh", "-c", "mkdir /tmp/here && " + make)

    job = hosts.run("-np", 1, "-H", "h2:1", "/tmp/here/a")

    assert job.code == code
    (line,) = [line for line in job.said if words in line]
    assert "h2" in line


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_ends_the_ranks_of_all_hosts(started, name):
    hosts, job = started("--grace", 1)

    job.signal(getattr(signal, f"SIG{name}"))
    ended = job.end()

    assert ended.code == 128 + getattr(signal, f"SIG{name}")
    hosts.wait_until_clean(1)


def test_ranks_anywhere_that_end_well_when_asked_make_it_a_success(started):
    script = "trap 'echo got; exit 0' INT; echo ready; while :; do sleep 0.1; done"
    hosts, job = started(command=("sh", "-c", script))

    job.signal(signal.SIGINT)
    ended = job.end()

    assert (ended.code, ended.out.count(b"got\n")) == (0, 4), ended.err
    hosts.wait_until_clean(1)


def test_a_killed_rank_is_the_culprit(started):
    hosts, job = started("--grace", 1)
    victim = hosts.hosts[2].find("sh")[0]

    os.kill(victim.pid, signal.SIGKILL)
    ended = end_in_time(hosts, job)

    assert ended.code == 137
    assert wording.culprit(3, host="h3") in "\n".join(ended.said)
    hosts.wait_until_clean(1)


EAT = """
import time
x = bytearray(300 << 20)
for page in range(0, len(x), 4096): x[page] = 1
time.sleep(60)
"""


def test_a_rank_that_ran_out_of_memory_elsewhere_is_told_with_its_counter(cluster):
    hosts = cluster(2)
    h2 = hosts.hosts[1]
    flags = ("-np", 2, "-H", "h1:1,h2:1", "--summary", "/root/summary.json")
    python = (sys.executable, "-S", "-E", "-c", EAT)

    try:
        with MemoryLimit.make(64 << 20) as limit:
            limit.enter(h2.find("sshd")[0].pid)
            job = hosts.run(*flags, *only_rank(1, f"exec {shlex.join(python)}"))
            hosts.wait_until_clean(2)
            kills = limit.kills()
            h2.kill()
    except (PermissionError, FileNotFoundError) as error:
        pytest.skip(f"a memory cgroup needs root and a kernel that lets it make one: {error}")

    assert (job.code, kills) == (137, 1), job.err
    assert wording.OF_MEMORY.format(limit="64 MiB") in "\n".join(job.said)
    assert wording.culprit(1, host="h2") in "\n".join(job.said)
    assert hosts.summary_of(job)["reason"] == "oom"


def test_ctrl_z_stops_the_ranks_of_all_hosts_and_their_lease(cluster):
    hosts = cluster(3)
    arguments = ("-np", 3, "-H", slots(hosts.hosts), "--lease", 2, "--grace", 1)
    command = ("sh", "-c", "echo ready; sleep 2; echo done")

    with hosts.start(*arguments, *command, process_group=0) as job:
        job.wait_until(lambda: job.text["out"].count(b"ready\n") == 3, "three times ready")
        (launcher,) = hosts.head.find("horovodrun")
        for host in hosts.hosts:
            host.wait_for(lambda host=host: host.find("sleep"), "its rank's child")
        ranks = [one for host in hosts.hosts for one in host.find("sleep")]

        job.signal(signal.SIGTSTP)
        everybody = [launcher.pid, *(one.pid for one in ranks)]
        hosts.head.wait_for(lambda: all(state_of(pid) == "T" for pid in everybody), "a stop")
        time.sleep(4)
        during = [state_of(pid) for pid in everybody]
        agents = [len(host.find("hvd-agent")) for host in hosts.hosts[1:]]
        job.signal(signal.SIGCONT)
        ended = job.end()

    assert len(ranks) == 3
    assert during == ["T"] * 4
    assert agents == [2, 2]
    assert (ended.code, ended.out.count(b"done\n")) == (0, 3), ended.err
    hosts.wait_until_clean(1)


@pytest.mark.parametrize("name", ["TERM", "KILL"])
@pytest.mark.parametrize("victim", [0, 1], ids=["guard", "agent"])
def test_a_killed_guard_or_agent_loses_its_host(started, victim, name):
    hosts, job = started("--grace", 1)
    guard_and_agent = hosts.hosts[1].find("hvd-agent")
    assert len(guard_and_agent) == 2

    os.kill(guard_and_agent[victim].pid, getattr(signal, f"SIG{name}"))
    ended = end_in_time(hosts, job)

    assert ended.code == 125
    assert "h2" in "\n".join(ended.said)
    hosts.wait_until_clean(1)


def test_what_outlives_guard_and_agent_is_swept(started):
    # Forked twice, in a new session, TERM ignored; the job's id is in its environment.
    demon = "(setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' &); echo ready; wait"
    command = ("sh", "-c", demon + "; sleep 1001")
    hosts, job = started("--grace", 1, command=command)
    h2 = hosts.hosts[1]
    both = h2.find("hvd-agent")

    for number in (signal.SIGSTOP, signal.SIGKILL):  # neither sees the other's end
        for one in both:
            os.kill(one.pid, number)
    hosts.wait_until_clean(2, [h2])
    ended = job.end()

    assert len(both) == 2
    assert ended.code == 125
    assert "h2" in "\n".join(ended.said)
    hosts.wait_until_clean(1)


def test_a_killed_sshd_loses_its_host(started):
    hosts, job = started("--grace", 1)
    h2 = hosts.hosts[1]
    daemon = h2.find("sshd")[0]
    sessions = [one for one in h2.find("sshd") if one.pid != daemon.pid]

    for one in sessions:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)
    ended = end_in_time(hosts, job)

    assert sessions
    assert ended.code == 125
    assert "h2" in "\n".join(ended.said)
    assert wording.beginning(wording.MAY_REMAIN) not in ended.stderr  # it was searched
    hosts.wait_until_clean(1)


def test_a_killed_launcher_takes_all_ranks_along(started):
    hosts, job = started()

    job.signal(signal.SIGKILL)

    hosts.wait_until_clean(2)
    assert job.end().code == -9


def test_a_killed_host_is_lost_at_once(started):
    hosts, job = started("--grace", 1, "--summary", "/root/summary.json")
    began = time.monotonic()

    hosts.hosts[2].kill()
    ended = job.end()

    assert time.monotonic() - began < 10  # --lease is 30 s
    assert ended.code == 125
    assert "h3" in "\n".join(ended.said)
    states = {host["host"]: host["state"] for host in hosts.summary_of(ended)["hosts"]}
    assert states == {"h1": "ok", "h2": "ok", "h3": "lost"}
    hosts.wait_until_clean(2)


def test_a_short_break_of_the_link_is_endured(started):
    script = "echo ready; sleep 4; echo done"
    hosts, job = started("--lease", 10, command=("sh", "-c", script))

    hosts.hosts[1].cut()
    time.sleep(2)
    hosts.hosts[1].heal()
    ended = job.end()

    assert (ended.code, ended.out.count(b"done\n")) == (0, 4), ended.err


def test_lost_packets_are_endured(cluster):
    hosts = cluster(3)
    for host in hosts.hosts[1:]:
        hosts.lab.lose(host, 5)

    job = hosts.run("-np", 4, "-H", "h2:2,h3:2", "sh", "-c", "sleep 1; echo done")

    assert (job.code, len(job.lines)) == (0, 4), job.err


def test_a_silent_host_is_lost_when_its_lease_ends(started):
    hosts, job = started("--lease", 2, "--grace", 1)
    h3 = hosts.hosts[2]
    began = time.monotonic()

    h3.cut()
    ended = job.end()
    took = time.monotonic() - began

    assert ended.code == 125
    assert "h3" in "\n".join(ended.said)
    left = [line for line in ended.said if wording.MAY_REMAIN.format(host="h3") in line]
    assert len(left) == 1 and wording.NOT_SEARCHED.format(host="h3") in left[0]
    assert 1.5 < took < 8
    hosts.wait_until_clean(2, hosts.hosts[:2])
    # Its agent has heard nothing for as long; its sshd does not notice such a thing.
    hosts.wait_until_clean(3, [h3], but_for="sshd")


@pytest.mark.parametrize("is_cut", [False, True], ids=["reached", "cut off"])
def test_a_host_whose_agent_hangs_has_no_rank_a_second_after_the_lease(started, is_cut):
    hosts, job = started("--lease", 2, "--grace", 1)
    h2 = hosts.hosts[1]
    agent = h2.find("hvd-agent")[1]

    if is_cut:
        h2.cut()
    os.kill(agent.pid, signal.SIGSTOP)
    hosts.wait_until_clean(2 + 1, [h2], but_for="sshd")
    ended = job.end()

    assert ended.code == 125
    assert "h2" in "\n".join(ended.said)
    hosts.wait_until_clean(2, [hosts.hosts[0], hosts.hosts[2]])


def test_a_host_that_loses_power_is_lost_when_its_lease_ends(started):
    hosts, job = started("--lease", 2, "--grace", 1)

    hosts.hosts[1].crash()
    ended = job.end()

    assert ended.code == 125
    assert "h2" in "\n".join(ended.said)
    hosts.wait_until_clean(2)
