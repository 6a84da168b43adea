# SPDX-License-Identifier: Apache-2.0
"""--pty RANK: one rank has a terminal, and the user's own is as before when it is over."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys

import pytest
import wording
from jobs import only_rank
from support.processes import alive, state_of, wait_until_none
from terminals import terminal_with


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", "-c", script)


@pytest.fixture
def job(launcher):
    """Starts jobs in terminals, and sees in the end that none has left a process."""
    mark = f"TEST_OF_PTY={secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:

        def start(*arguments: object, **options: object):
            name, value = mark.split("=")
            options["env"] = {**os.environ, "TERM": "xterm", name: value}
            return stack.enter_context(terminal_with(*launcher.command(*arguments), **options))

        yield start
    wait_until_none(lambda: alive(lambda one: mark.encode() in one.environment()), 5)


SELF = """
import os
for fd in (0, 1, 2):
    print(fd, os.isatty(fd), os.get_terminal_size(fd))
print("same", os.ttyname(0) == os.ttyname(1) == os.ttyname(2))
tty = os.open("/dev/tty", os.O_RDWR)
print("leads", os.getsid(0) == os.getpid() == os.tcgetpgrp(tty), os.environ["TERM"])
os.write(tty, b"end of it\\n")
"""


def test_the_rank_has_a_terminal_of_its_own(job):
    terminal = job("-np", 1, "--pty", 0, *python(SELF), rows=33, columns=101)

    size = b"os.terminal_size(columns=101, lines=33)"
    shown = terminal.wait_for(b"end of it\r\n")
    assert shown.count(b"True " + size) == 3, shown
    assert b"same True\r\nleads True xterm\r\n" in shown
    assert terminal.wait_for_code() == 0


def test_its_output_has_no_prefix_and_that_of_others_has(job):
    script = only_rank(1, "printf '\\033[31mred\\033[0m? '; read x; echo got $x", "echo a; echo b")
    terminal = job("-np", 2, "--pty", 1, "--on-failure", "wait", *script)

    first = terminal.wait_for(b"[0]<stdout>:b\r\n")
    assert b"[0]<stdout>:a\r\n" in first
    if b"red" not in first:
        terminal.wait_for(b"\x1b[31mred\x1b[0m? ")
    terminal.type(b"it\r")
    assert b"<stdout>" not in terminal.wait_for(b"got it\r\n")
    assert terminal.wait_for_code() == 0


def test_a_prompt_is_answered_and_what_is_typed_is_echoed_once(job):
    terminal = job("-np", 1, "--pty", 0, *python("print('hello', input('name? '))"))

    terminal.wait_for(b"name? ")
    terminal.type(b"Adx\x7fa\r")  # with a key that takes the x back

    assert terminal.wait_for(b"hello Ada\r\n") == b"Adx\x08 \x08a\r\nhello Ada\r\n"
    assert terminal.wait_for_code() == 0


def test_a_debugger_can_be_used(job):
    terminal = job("-np", 1, "--pty", 0, sys.executable, "-c", "x = 41\nbreakpoint()\nx = 1")

    terminal.wait_for(b"(Pdb) ")
    terminal.type(b"p x + 1\r")
    terminal.wait_for(b"42")
    terminal.wait_for(b"(Pdb) ")
    terminal.type(b"c\r")

    assert terminal.wait_for_code() == 0


RESIZED = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print("ready", flush=True)
signal.sigwait([signal.SIGWINCH])
print("now", *os.get_terminal_size(), flush=True)
"""


def test_a_new_size_of_the_window_reaches_the_rank(job):
    terminal = job("-np", 1, "--pty", 0, *python(RESIZED))

    terminal.wait_for(b"ready")
    terminal.resize(50, 132)

    terminal.wait_for(b"now 132 50\r\n")
    assert terminal.wait_for_code() == 0


INTERRUPTED = """
import os, sys, time
try:
    print("ready", flush=True)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    print("undisturbed", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    open(sys.argv[1], "w").close()
"""


def test_control_c_interrupts_that_rank_alone(job, tmp_path):
    terminal = job("-np", 2, "--pty", 1, *python(INTERRUPTED), tmp_path / "go")

    shown = b"".join(terminal.wait_for(b"ready") for _ in range(2))
    assert b"[0]<stdout>:ready" in shown
    terminal.type(b"\x03")

    shown = terminal.wait_for(b"undisturbed\r\n")
    assert b"\r\ninterrupted\r\n" in shown or b"^Cinterrupted\r\n" in shown
    assert terminal.wait_for_code() == 0


def test_once_the_rank_has_ended_control_c_is_for_the_job(job):
    other = "trap 'echo asked; exit 0' INT; echo ready; sleep 60 & wait"
    terminal = job("-np", 2, "--pty", 0, *only_rank(0, "read line; echo over", other))

    terminal.wait_for(b"[1]<stdout>:ready")  # before it, the signal would end that rank
    terminal.type(b"\r")
    terminal.wait_for(b"over\r\n")
    terminal.wait_until(raw=False)
    terminal.type(b"\x03")

    terminal.wait_for(b"[1]<stdout>:asked")
    assert terminal.wait_for_code() == 0


WAIT = ("sh", "-c", "echo ready; exec sleep 60")


def test_the_modes_come_back_in_the_end(job):
    terminal = job("-np", 1, "--pty", 0, "sh", "-c", "read line; echo over")

    terminal.wait_until(raw=True)
    terminal.type(b"\r")

    assert terminal.wait_for_code() == 0
    assert terminal.is_as_before()


def test_the_modes_come_back_when_the_rank_fails_and_its_last_words_are_reported(job):
    script = "input('go? ')\nraise ValueError('\\x1b[1mno data')"
    terminal = job("-np", 2, "--pty", 0, *only_rank(0, f'exec {sys.executable} -c "{script}"'))

    terminal.wait_for(b"go? ")
    assert terminal.is_raw()
    terminal.type(b"\r")

    terminal.wait_for(wording.line(wording.culprit(0)).encode())
    error = wording.line(wording.LAST_LINE, text="ValueError: no data")
    terminal.wait_for(f"{error}\r\n".encode())
    assert terminal.wait_for_code() == 1
    assert terminal.is_as_before()


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT"])
def test_the_modes_come_back_when_horovodrun_is_asked_to_end(job, name):
    terminal = job("-np", 2, "--pty", 0, *WAIT)

    terminal.wait_for(b"ready")
    terminal.wait_for(b"ready")
    assert terminal.is_raw()
    number = getattr(signal, f"SIG{name}")
    os.kill(terminal.program(), number)

    assert terminal.wait_for_code() == 128 + number
    assert terminal.is_as_before()


@pytest.mark.parametrize("name", ["KILL", "SEGV", "ABRT"])
@pytest.mark.parametrize("whom", [os.kill, os.killpg], ids=["process", "group"])
def test_the_modes_come_back_when_horovodrun_is_killed(job, name, whom):
    terminal = job("-np", 1, "--pty", 0, *WAIT)

    terminal.wait_for(b"ready")
    assert terminal.is_raw()
    number = getattr(signal, f"SIG{name}")
    whom(terminal.program(), number)

    assert terminal.wait_for_code() == 128 + number
    terminal.wait_until_as_before()


def test_a_stopped_horovodrun_leaves_the_terminal_to_the_shell(job):
    terminal = job("-np", 1, "--pty", 0, "sh", "-c", "echo ready; read line; echo got $line")

    terminal.wait_for(b"ready")
    launcher = terminal.program()
    os.kill(launcher, signal.SIGTSTP)
    assert terminal.wait_for_code() == 128 + signal.SIGTSTP
    assert terminal.is_as_before()
    assert state_of(launcher) == "T"

    terminal.type(b"\n")  # the shell goes on with `fg`
    terminal.wait_until(raw=True)
    terminal.type(b"again\r")
    terminal.wait_for(b"got again\r\n")
    assert terminal.wait_for_code() == 0
    assert terminal.is_as_before()


def test_a_file_gets_all_that_the_terminal_shows(job, tmp_path):
    terminal = job(
        "-np",
        1,
        "--pty",
        0,
        "--output-filename",
        tmp_path,
        "sh",
        "-c",
        "echo out; echo err >&2",
    )

    assert terminal.wait_for_code() == 0
    assert (tmp_path / "rank.0/stdout").read_bytes() == b"out\r\nerr\r\n"


def test_much_output_arrives_whole(job):
    terminal = job("-np", 1, "--pty", 0, "sh", "-c", "seq 1 200000")

    shown = terminal.wait_for(b"code=")
    expected = "".join(f"{number}\r\n" for number in range(1, 200_001)).encode()
    assert shown == expected + b"code="


def test_what_outlives_the_rank_still_writes_to_the_terminal(job, tmp_path):
    file = tmp_path / "late"
    late = f"trap '' HUP; (sleep 0.5; echo late; : > {file}) & echo first"
    script = only_rank(0, late, f"while [ ! -e {file} ]; do sleep 0.1; done")
    terminal = job("-np", 2, "--pty", 0, *script)

    terminal.wait_for(b"first\r\n")
    terminal.wait_for(b"late\r\n")
    assert terminal.wait_for_code() == 0


def test_without_a_terminal_it_is_refused(launcher):
    ended = launcher.run("-np", 1, "--pty", 0, "true")

    assert ended.code == 2
    (said,) = ended.said
    assert said == wording.line(wording.NO_INPUT_TERMINAL)


def test_an_output_that_is_no_terminal_is_refused(launcher):
    words = " ".join(launcher.command("-np", 1, "--pty", 0, "true"))
    with terminal_with("sh", "-c", f"{words} | cat") as terminal:
        shown = terminal.wait_for(b"code=")

    assert wording.NO_OUTPUT_TERMINAL.encode() in shown


def test_a_terminal_is_not_taken_from_the_background(launcher):
    words = " ".join(launcher.command("-np", 1, "--pty", 0, "true"))
    with terminal_with("sh", "-mc", f"{words} & wait $!") as terminal:
        shown = terminal.wait_for(b"code=")

    assert wording.IN_BACKGROUND.encode() in shown


def test_a_plan_needs_no_terminal(launcher):
    assert launcher.run("-np", 1, "--pty", 0, "--dry-run", "true").code == 0
