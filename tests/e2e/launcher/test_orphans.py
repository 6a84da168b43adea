# SPDX-License-Identifier: Apache-2.0
"""Whoever is killed with -9, nothing of the job is left a second later.

The job runs as PID 1's descendants in a PID namespace of its own, where a script counts what is
left by looking at all of /proc: never by what the product believes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import wording

PYTHON = (sys.executable, "-S", "-E")

# Each rank has a child, and a grandchild that hides: double-forked, in a new session, with
# an empty environment, ignoring TERM.
RANK = """
import os, signal, subprocess, time
subprocess.Popen(["sleep", "1000"])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execve("/bin/sleep", ["sleep", "2000"], {})
    os._exit(0)
os.wait()
print("ready", flush=True)
time.sleep(1000)
"""

# Kills one process by its place in the tree, waits a second, lists what is left.
SCRIPT = r"""
import os, signal, subprocess, sys, time

sys.path.insert(0, "TESTS")
from support.processes import children_of, table

def child_of(parent, wanted):
    return next(one.pid for one in children_of(parent) if one.name == wanted)

victim, limit, *command = sys.argv[1:]
job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
for _ in range(3):
    line = job.stdout.readline()
    assert b"ready" in line, (line, job.stderr.read())
deadline = time.monotonic() + 20
while sum(one.name == "sleep" for one in table()) < 6:
    assert time.monotonic() < deadline, table()
    time.sleep(0.02)
guard = child_of(job.pid, "hvd-agent")
agent = child_of(guard, "hvd-agent")
began = time.monotonic()
victims = {"launcher": [job.pid], "guard": [guard], "agent": [agent], "both": [guard, agent]}
# All stand still first: none of them acts on the death of another before its own.
for number in (signal.SIGSTOP, signal.SIGKILL):
    for pid in victims[victim]:
        os.kill(pid, number)

def left():
    return [one for one in table()
            if one.pid not in (os.getppid(), os.getpid(), job.pid) and one.is_alive()]

# Behind that comes a new agent, to look for what the dead one left, and goes.
while (rest := left()) and time.monotonic() - began < float(limit):
    time.sleep(0.02)
print("left:", rest, "after %.2f s" % (time.monotonic() - began))
try:
    print("code:", job.wait(20))
except subprocess.TimeoutExpired:
    print("code: none")
print(job.stderr.read().decode())
sys.exit(bool(rest))
""".replace("TESTS", str(Path(__file__).resolve().parents[2]))


def run_in(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def check(result: subprocess.CompletedProcess[str], code: int) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
    assert "left: []" in result.stdout
    assert f"code: {code}\n" in result.stdout


@pytest.mark.parametrize("victim, code", [("launcher", -9), ("agent", 125), ("guard", 125)])
def test_nothing_is_left_a_second_after_kill_9(launcher, own_pids, tmp_path, victim, code):
    (tmp_path / "count.py").write_text(SCRIPT)
    (tmp_path / "rank.py").write_text(RANK)
    job = launcher.command("-np", 3, "--bind-to", "none", *PYTHON, tmp_path / "rank.py")

    result = run_in(*own_pids, *PYTHON, tmp_path / "count.py", victim, "1.0", *job)

    check(result, code)
    if victim != "launcher":
        assert wording.line(wording.LOST_AGENT, host="localhost", why="") in result.stdout


# Descendants that are never there long enough to be found: each process has a child, and ends.
RUNNER = """
import os, time
assert "/horovodrun-" in open("/proc/self/cgroup").read()
for _ in range(8):
    if os.fork() == 0:
        while True:
            if os.fork() > 0:
                os._exit(0)
print("ready", flush=True)
time.sleep(1000)
"""
EVERYBODY_IS_THERE = SCRIPT.replace(
    'sum(one.name == "sleep" for one in table()) < 6', "len(table()) < 8"
)

# Gives its command a cgroup of version 2 below which cgroups can be made.
IN_CGROUP = """
mount -t cgroup2 none /sys/fs/cgroup || exit 99
name=$(mktemp -d /sys/fs/cgroup/horovod-test-XXXXXX) || exit 99
echo 0 > "$name/cgroup.procs"
"$@"
code=$?
echo 0 > /sys/fs/cgroup/cgroup.procs
rmdir "$name" && echo "cgroups: none" || ls "$name"
exit $code
"""


needs_cgroups = pytest.mark.skipif(os.geteuid() != 0, reason="not root: no cgroup can be made")


@needs_cgroups
@pytest.mark.parametrize("victim, code", [("agent", 125), ("guard", 125)])
def test_whoever_forks_faster_than_he_is_found_dies_with_his_cgroup(
    launcher, own_pids, tmp_path, victim, code
):
    (tmp_path / "count.py").write_text(EVERYBODY_IS_THERE)
    (tmp_path / "rank.py").write_text(RUNNER)
    job = launcher.command("-np", 3, "--bind-to", "none", *PYTHON, tmp_path / "rank.py")
    command = [*PYTHON, tmp_path / "count.py", victim, "5.0", *job]

    result = run_in(*own_pids, "sh", "-c", IN_CGROUP, "sh", *command)

    check(result, code)
    assert "cgroups: none" in result.stdout


@needs_cgroups
def test_who_sweeps_after_guard_and_agent_removes_their_cgroup(launcher, own_pids, tmp_path):
    (tmp_path / "count.py").write_text(EVERYBODY_IS_THERE)
    (tmp_path / "rank.py").write_text('import time\nprint("ready", flush=True)\ntime.sleep(1000)\n')
    job = launcher.command("-np", 3, "--bind-to", "none", *PYTHON, tmp_path / "rank.py")
    command = [*PYTHON, tmp_path / "count.py", "both", "5.0", *job]

    result = run_in(*own_pids, "sh", "-c", IN_CGROUP, "sh", *command)

    check(result, 125)
    assert "cgroups: none" in result.stdout


# The cgroups that a job leaves when its guard and agent are killed at once, beside the command's.
WITH_AN_ABANDONED_CGROUP = """
mkdir "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/horovodrun-999999-1" || exit 98
exec "$@"
"""


@needs_cgroups
def test_no_cgroup_stays_of_a_job_that_ends_nor_of_one_that_was_killed(launcher, own_pids):
    job = [str(word) for word in launcher.command("-np", 2, "sleep", 0.3)]
    command = ["sh", "-c", WITH_AN_ABANDONED_CGROUP, "sh", *job]

    result = run_in(*own_pids, "sh", "-c", IN_CGROUP, "sh", *command)

    assert (result.returncode, result.stdout) == (0, "cgroups: none\n"), result


# Linux 6.14 and later may end a process started into a cgroup from one that was killed.
IN_CGROUP_THAT_WAS_KILLED = IN_CGROUP.replace(
    'echo 0 > "$name',
    """sleep 1000 &
echo $! > "$name/cgroup.procs" && echo 1 > "$name/cgroup.kill" && wait
echo 0 > "$name""",
)


@needs_cgroups
def test_a_job_runs_where_others_died_with_their_cgroup(launcher, own_pids):
    job = [str(word) for word in launcher.command("-np", 2, "echo", "here")]

    result = run_in(*own_pids, "sh", "-c", IN_CGROUP_THAT_WAS_KILLED, "sh", *job)

    assert result.returncode == 0, result
    assert result.stdout.count("here") == 2


def test_a_job_that_ends_leaves_nothing(launcher, own_pids, tmp_path):
    (tmp_path / "rank.py").write_text(RANK.replace("time.sleep(1000)", "time.sleep(0.3)"))
    program = (*PYTHON, tmp_path / "rank.py")
    command = [str(word) for word in launcher.command("-np", 2, *program)]

    # The shell is PID 1: it and `ps` are all that may be there.
    result = run_in(*own_pids, "sh", "-c", '"$@"; echo code $?; ps -e -o comm=', "sh", *command)

    lines = result.stdout.splitlines()
    assert lines[lines.index("code 0") + 1 :] == ["sh", "ps"], result
