# SPDX-License-Identifier: Apache-2.0
"""Signals to horovodrun: asked once, killed at the second time, and what is only passed on."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
import wording
from commands import summary_of
from jobs import TIMEOUT
from support.processes import state_of

HINT = wording.line(wording.STOPPING)


def trapping(action: str) -> tuple[str, ...]:
    """A rank that says "ready", does `action` on any of the usual signals, and else waits."""
    names = "INT TERM HUP QUIT USR1 USR2"
    traps = "; ".join(f"trap '{action.replace('NAME', name)}' {name}" for name in names.split())
    return ("sh", "-c", f"{traps}; echo ready; while :; do sleep 0.1; done")


def start_ready(launcher, stack, *arguments, ranks=2, **options):
    job = stack.enter_context(launcher.start("-np", ranks, *arguments, **options))
    while job.text["out"].count(b"ready\n") < ranks:
        job.wait_until(lambda: job.text["out"].count(b"ready\n") >= ranks, "ready")
    return job


@pytest.fixture
def stack():
    with contextlib.ExitStack() as made:
        yield made


@pytest.fixture
def hanging(tmp_path):
    """Makes programs that neither read nor end."""

    class Hanging:
        def __init__(self, name: str) -> None:
            self.file, self.mark = tmp_path / name, tmp_path / (name + ".called")
            self.file.write_text(f"#!/bin/sh\n: > {self.mark}\nexec sleep 60\n")
            self.file.chmod(0o755)

        def wait_for_call(self, job) -> None:
            while not self.mark.exists():
                assert job.process.poll() is None
                time.sleep(0.02)

    return Hanging


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT"])
def test_ranks_that_end_well_when_asked_make_it_a_success(launcher, stack, name):
    job = start_ready(launcher, stack, *trapping("echo got NAME; exit 0"))

    job.signal(getattr(signal, f"SIG{name}"))
    ended = job.end()

    assert ended.code == 0
    assert sorted(ended.lines)[0] == f"[0]<stdout>:got {name}"
    assert ended.out.count(b"got " + name.encode()) == 2
    assert ended.said == [HINT]


@pytest.mark.parametrize("name, number", [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)])
def test_else_it_is_128_and_the_signal(launcher, stack, name, number):
    job = start_ready(launcher, stack, *trapping("exit 7"))

    job.signal(number)
    ended = job.end()

    assert ended.code == 128 + number
    assert ended.said == [
        HINT,
        wording.line(wording.STOPPED_BY, name=name),
        wording.line(wording.STOPPED, ranks="0-1"),
    ]


def test_the_summary_of_an_interrupted_job_has_no_culprit(launcher, stack, tmp_path):
    file = tmp_path / "summary.json"
    job = start_ready(launcher, stack, "--summary", file, *trapping("exit 7"))

    job.signal(signal.SIGINT)
    ended = job.end()

    summary = summary_of(file, ended)
    assert ended.code == 130
    assert (summary["outcome"], summary["exit_code"]) == ("failed", 130)
    assert (summary["reason"], summary["culprit"]) == ("interrupted", None)
    assert [rank["class"] for rank in summary["ranks"]] == ["stopped", "stopped"]


def test_a_second_request_kills_at_once(launcher, stack):
    job = start_ready(launcher, stack, "--grace", 50, *trapping("echo no"))

    job.signal(signal.SIGINT)
    job.wait_for(HINT.encode(), "err")
    time.sleep(0.5)
    job.signal(signal.SIGINT)
    ended = job.end()

    assert ended.code == 130
    assert ended.seconds < 30


def test_a_request_during_the_start_keeps_the_other_ranks_from_starting(launcher, tmp_path):
    file = tmp_path / "summary.json"
    flags = ("-np", 64, "--bind-to", "none", "--grace", 20, "--summary", file)
    script = "[ $HOROVOD_RANK = 0 ] && kill -INT $LAUNCHER; exec sleep 60"

    ended = launcher.run(
        *flags, "sh", "-c", script, prefix=("sh", "-c", 'LAUNCHER=$$ exec "$@"', "sh")
    )

    assert ended.code == 130
    assert ended.seconds < 20
    ranks = summary_of(file, ended)["ranks"]
    assert {rank["signal"] for rank in ranks} <= {"SIGINT", None}
    assert {rank["class"] for rank in ranks} == {"stopped"}


def test_two_signals_at_once_are_one_request(launcher, stack):
    job = start_ready(launcher, stack, *trapping("echo got NAME; sleep 0.5; echo saved; exit 0"))

    job.signal(signal.SIGTERM)
    job.signal(signal.SIGTERM)
    ended = job.end()

    assert ended.code == 0
    assert ended.out.count(b"saved") == 2


def test_who_does_not_react_is_killed_after_the_grace_time(launcher, stack):
    job = start_ready(launcher, stack, "--grace", 1, *trapping("echo no"))

    job.signal(signal.SIGTERM)
    ended = job.end()

    assert ended.code == 143
    assert ended.seconds < 30


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_user_signals_are_passed_on_and_stop_nothing(launcher, stack, name):
    job = start_ready(launcher, stack, *trapping("echo got NAME; test NAME = TERM && exit 0"))

    job.signal(getattr(signal, f"SIG{name}"))
    job.wait_until(lambda: job.text["out"].count(b"got " + name.encode()) == 2, f"got {name}")
    job.signal(signal.SIGTERM)
    ended = job.end()

    assert ended.out.count(b"got " + name.encode()) == 2
    assert ended.code == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1])
def test_ignored_signals_stay_ignored(launcher, stack, number):
    ignore = ("sh", "-c", f'trap "" {number.name.removeprefix("SIG")}; exec "$@"', "sh")
    script = "import signal, time; signal.signal(signal.SIGUSR1, print); "
    script += "print('ready', flush=True); time.sleep(1); print('done')"

    with launcher.start(
        *("-np", 1, "--grace", 0.2, sys.executable, "-S", "-E", "-c", script), prefix=ignore
    ) as job:
        job.wait_for(b"ready")
        job.signal(number)
        ended = job.end()

    assert (ended.code, ended.lines) == (0, ["[0]<stdout>:ready", "[0]<stdout>:done"])
    assert ended.said == []


# A print that a signal interrupts forbids another one meanwhile.
SAVES_ON_TERM = """
import os, signal, sys, time
def save(*_):
    os.write(1, b"asked\\n")
    time.sleep(1.5)
    os.write(1, b"saved\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
os.write(1, b"ready\\n")
time.sleep(60)
"""


def test_a_program_in_a_shell_has_the_grace_too(launcher):
    python = f"{sys.executable} -S -E -c '{SAVES_ON_TERM}'"

    with launcher.start("-np", 1, "sh", "-c", f"{python}; true") as job:
        job.wait_for(b"ready")
        job.signal(signal.SIGTERM)
        ended = job.end()

    assert ended.code == 143
    assert ended.lines == [f"[0]<stdout>:{word}" for word in ("ready", "asked", "saved")]


def wait_for_state(pid: int, states: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while state_of(pid) not in states:
        assert time.monotonic() < deadline, f"{pid} is {state_of(pid)}, not {states}"
        time.sleep(0.02)


def test_a_terminal_stop_stops_all_and_continues_all(launcher, stack):
    job = start_ready(launcher, stack, "sh", "-c", "echo ready; echo $$; exec sleep 60")
    ranks: list[int] = []
    while len(ranks) < 2:
        job.wait_until(lambda: bytes(job.text["out"]).count(b"\n") == 4, "pids")
        ranks = [
            int(line.rpartition(":")[2])
            for line in bytes(job.text["out"]).decode().split()
            if line.rpartition(":")[2].isdigit()
        ]

    job.signal(signal.SIGTSTP)
    for pid in (*ranks, job.process.pid):
        wait_for_state(pid, "T")
    job.signal(signal.SIGCONT)
    for pid in (*ranks, job.process.pid):
        wait_for_state(pid, "RSD")
    job.signal(signal.SIGTERM)

    assert job.end().code == 143


def test_a_terminal_stop_that_is_called_off_in_time_stops_nothing(launcher, hanging):
    shell = hanging("shell")
    flags = ("-np", 1, "-H", "elsewhere:1", "--remote-shell", shell.file)
    with launcher.start(*flags, "true") as job:
        shell.wait_for_call(job)

        job.signal(signal.SIGTSTP)
        time.sleep(0.3)
        job.signal(signal.SIGCONT)

        time.sleep(1.2)  # after which it would have stopped
        assert state_of(job.process.pid) != "T"
        job.signal(signal.SIGINT)
        assert job.end().code == 130


HANGING_LOOK_UP = """
#include <fcntl.h>
#include <unistd.h>
int getaddrinfo() {
    open("MARK", O_CREAT | O_WRONLY, 0600);
    sleep(60);
    return -4;
}
"""


@pytest.mark.parametrize("name, number", [("INT", 2), ("TERM", 15)])
def test_a_look_up_of_a_name_to_listen_at_can_be_left(launcher, hanging, tmp_path, name, number):
    look_up = hanging("look_up.so")
    source = tmp_path / "look_up.c"
    source.write_text(HANGING_LOOK_UP.replace("MARK", str(look_up.mark)))
    compiled = ("cc", "-shared", "-fPIC", "-o", look_up.file, source)
    subprocess.run(compiled, check=True, timeout=60)
    env = {"LD_PRELOAD": str(look_up.file)}
    flags = ("-np", 1, "--listen", "head.invalid:0", "--join-hosts", 1)
    with launcher.start(*flags, "true", env=env) as job:
        look_up.wait_for_call(job)
        job.signal(number)
        ended = job.end()

    assert ended.code == 128 + number
    assert ended.said == [wording.line(wording.STOPPED_WHILE_JOINING, name=name)]


@pytest.mark.parametrize("name, number", [("INT", 2), ("TERM", 15)])
def test_an_mpirun_that_does_not_say_its_version_can_be_left(launcher, hanging, name, number):
    mpirun = hanging("mpirun")
    env = {"HOROVOD_MPIRUN": str(mpirun.file)}
    with launcher.start("--mpi", "-np", 1, "true", env=env) as job:
        mpirun.wait_for_call(job)
        job.signal(number)
        ended = job.end()

    assert ended.code == 128 + number
    assert ended.said == [wording.line(wording.STOPPED_BY, name=name)]


def test_an_mpirun_that_does_not_say_its_version_is_a_time_limit(launcher, hanging):
    mpirun = hanging("mpirun")

    ended = launcher.run(
        *("--mpi", "-np", 1, "--start-timeout", 1, "true"),
        env={"HOROVOD_MPIRUN": str(mpirun.file)},
    )

    assert ended.code == 124
    assert ended.said == [wording.line(wording.MPIRUN_SILENT, program=mpirun.file)]


def test_ctrl_c_at_a_terminal_reaches_each_rank_once(launcher, tmp_path):
    script = (
        f"trap 'echo INT >> {tmp_path}/rank.$HOROVOD_RANK' INT; echo ready; "
        "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; exit 0"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        command = launcher.command("-np", "2", "sh", "-c", script)
        os.execv(command[0], command)
    shown = b""
    try:
        while shown.count(b"ready") < 2:
            shown += os.read(terminal, 4096)
        os.write(terminal, b"\x03")
        try:
            while data := os.read(terminal, 4096):
                shown += data
        except OSError:
            pass  # the terminal's other side is closed
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(terminal)

    assert os.waitstatus_to_exitcode(status) == 0
    assert HINT.encode() in shown
    for rank in (0, 1):
        assert (tmp_path / f"rank.{rank}").read_text() == "INT\n"


def test_timeout_1_is_one_request(launcher):
    ended = subprocess.run(
        [
            "timeout",
            "1",
            *launcher.command("-np", 2, *trapping("sleep 0.5; echo saved; exit 0")),
        ],
        capture_output=True,
        timeout=TIMEOUT,
    )

    assert ended.stdout.count(b"saved") == 2
