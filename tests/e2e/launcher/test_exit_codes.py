# SPDX-License-Identifier: Apache-2.0
"""How a job ends: exit codes, the last words, the summary."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest
import wording
from commands import summary_of
from jobs import only_rank

PYTHON = (sys.executable, "-S", "-E")


def culprit_line(rank: int, why: str, **values: object) -> str:
    """A regular expression for it, on this machine."""
    place = {"rank": rank, "host": "[^,]+", "local_rank": rank, "pid": r"\d+"}
    why = wording.pattern(why, **values)
    return wording.PREFIX + wording.pattern(wording.CULPRIT, **place, why=why)


def test_success_is_silent_and_0(launcher):
    job = launcher.run("-np", 2, "true")

    assert (job.code, job.out, job.said) == (0, b"", [])


def test_the_culprits_exit_code_and_last_lines_are_the_last_words(launcher):
    job = launcher.run("-np", 4, *only_rank(1, "echo one >&2; echo two >&2; exit 3"))

    assert job.code == 3
    assert job.seconds < 30
    words = job.said[-4:]
    assert re.fullmatch(culprit_line(1, wording.OF_EXIT, code=3), words[0])
    stopped = wording.line(wording.STOPPED, ranks="0,2-3")
    assert words[1:] == [
        wording.line(wording.LAST_LINE, text="one"),
        wording.line(wording.LAST_LINE, text="two"),
        stopped,
    ]
    assert job.stderr.rstrip().endswith(stopped)


def test_the_culprits_line_says_how_much_later_the_next_rank_failed(launcher, tmp_path):
    summary = tmp_path / "summary.json"
    script = "test $HOROVOD_RANK = 0 && exit 0; test $HOROVOD_RANK = 2 || sleep 0.4; exit 3"

    job = launcher.run(
        *("-np", 4, "--on-failure", "wait", "--summary", summary), *("sh", "-c", script)
    )

    time = r"(\d+ ms|\d+\.\d s)"
    line = culprit_line(2, wording.OF_EXIT_FIRST, code=3, count=3, time=time)
    assert any(re.fullmatch(line, said) for said in job.said), job.said
    culprit = summary_of(summary, job)["culprit"]
    assert culprit["failed_ranks"] == 3
    assert 0 < culprit["seconds_before_next"] < 30


def errors_of(job) -> list[str]:
    """Last lines of ranks in the report, and who had the same."""
    beginnings = tuple(
        wording.line(wording.beginning(each)) for each in (wording.LAST_LINE, wording.SAME)
    )
    return [line for line in job.said if line.startswith(beginnings)]


def test_the_same_traceback_of_several_ranks_is_told_once(launcher, tmp_path):
    program = tmp_path / "rank.py"
    program.write_text(
        "import os, sys, time\n"
        "rank = int(os.environ['HOROVOD_RANK'])\n"
        "time.sleep(0 if rank == 1 else 0.3)\n"
        "print('rank', rank, 'begins', file=sys.stderr)\n"
        "raise ValueError('no data' if rank != 2 else 'other')\n"
    )
    flags = ("-np", 4, "--on-failure", "wait", "--bind-to", "none")
    error = wording.line(wording.LAST_LINE, text="ValueError: no data")
    same = wording.line(wording.SAME, ranks="1,3")

    job = launcher.run(*flags, *PYTHON, program)

    assert errors_of(job)[-2:] == [error, same]

    job = launcher.run(*flags, "--error-lines", 1, *PYTHON, program)

    assert errors_of(job) == [error, same]

    job = launcher.run(*flags, "--error-lines", 0, *PYTHON, program)

    assert errors_of(job) == [same]


def test_a_traceback_of_all_ranks_is_told_once_whoever_is_first(launcher, tmp_path):
    script = 'sleep 0.$(((HOROVOD_RANK + 2) % 4)); exec "$0" -S -E -c \'int("x")\''
    flags = ("-np", 4, "--bind-to", "none")

    content = told_of(launcher, tmp_path, *flags, "bash", "-c", script, sys.executable)

    assert content["culprit"]["rank"] == 0
    assert [rank["class"] for rank in content["ranks"]] == ["culprit", "same", "same", "same"]


@pytest.mark.parametrize("code", [1, 2, 77, 124, 255])
def test_any_exit_code_of_a_rank_is_passed_on(launcher, code):
    assert launcher.run("-np", 2, *only_rank(0, f"exit {code}")).code == code


@pytest.mark.parametrize("name, number", [("SEGV", 11), ("KILL", 9), ("ABRT", 6), ("TERM", 15)])
def test_a_signal_gives_128_and_its_number(launcher, name, number):
    job = launcher.run("-np", 2, *only_rank(1, f"kill -{name} $$"))

    assert job.code == 128 + number
    why = wording.OF_SIGKILL if name == "KILL" else wording.OF_SIGNAL
    line = culprit_line(1, why, name=f"SIG{name}")
    assert any(re.fullmatch(line, said) for said in job.said)


def test_a_missing_command_is_127(launcher):
    job = launcher.run("-np", 2, "no-such-command")

    assert job.code == 127
    why = wording.CANNOT_EXECUTE.format(why="'no-such-command'")
    assert any(why in line for line in job.said)


def test_a_file_that_may_not_be_executed_is_126(launcher, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")

    job = launcher.run("-np", 1, script)

    assert job.code == 126
    assert any(
        wording.beginning(wording.CANNOT_EXECUTE) in line and str(script) in line
        for line in job.said
    )


def test_a_missing_python_names_python3(launcher, tmp_path):
    (tmp_path / "python3").symlink_to(shutil.which("true"))

    job = launcher.run("-np", 1, "python", "train.py", env={"PATH": str(tmp_path)})

    assert job.code == 127
    assert any("python3" in line for line in job.said)


def test_a_host_that_does_not_resolve_is_named_with_125(launcher):
    job = launcher.run("-np", 1, "-H", "no-such-host.invalid", "true")

    assert job.code == 125
    assert "no-such-host.invalid" in job.said[-1]
    assert wording.NO_ADDRESS in job.said[-1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-np", 0, "true"),
        ("-np", 2),
        ("--no-such-flag", "true"),
        ("-np", 3, "-H", "localhost:2", "true"),
        ("-np", 1, "--output-filename", "/proc/no/dir", "true"),
        ("-np", 1, "--summary", "/proc/no/file", "true"),
    ],
)
def test_what_cannot_work_is_refused_with_2(launcher, arguments):
    job = launcher.run(*arguments)

    assert job.code == 2
    assert job.out == b""
    assert job.said


def test_the_time_limit_is_124(launcher):
    job = launcher.run("-np", 2, "--timeout", 1, "sleep", 60)

    assert job.code == 124
    assert job.seconds < 30
    assert wording.line(wording.STOPPED, ranks="0-1") in job.said
    assert any("--timeout" in line for line in job.said)


def test_a_launcher_without_its_agent_is_125_and_lists_where_it_looked(launcher, tmp_path):
    job = launcher.run("-np", 1, "true", env={"HOROVOD_AGENT": str(tmp_path / "none")})

    assert job.code == 125
    assert str(tmp_path / "none") in job.said[0]


def test_an_agent_of_something_else_is_refused(launcher):
    job = launcher.run("-np", 1, "true", env={"HOROVOD_AGENT": shutil.which("true")})

    assert job.code == 125


def test_a_closed_standard_output_is_141_and_ends_the_job(launcher):
    command = " ".join(launcher.command("-np", 2, "sh", "-c", "'while :; do echo x; done'"))

    ended = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        timeout=60,
    )

    assert ended.returncode == 141
    assert ended.stdout.endswith(b"<stdout>:x\n")


def test_a_closed_pipe_of_both_streams_is_141_also_where_nobody_writes_to_stdout(launcher):
    script = "'for i in $(seq 50); do echo x >&2; sleep 0.1; done'"
    command = " ".join(launcher.command("-np", 1, "sh", "-c", script))

    ended = subprocess.run(
        ["bash", "-c", f"{command} 2>&1 | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        timeout=60,
    )

    assert (ended.returncode, ended.stdout) == (141, b"[0]<stderr>:x\n")


def test_ranks_that_end_early_and_well_do_not_end_the_job(launcher):
    job = launcher.run("-np", 3, *only_rank(2, "sleep 0.5; echo last", others="exit 0"))

    assert (job.code, job.out) == (0, b"[2]<stdout>:last\n")


def test_a_rank_that_ignores_term_is_killed_after_the_grace_time(launcher):
    job = launcher.run(
        *("-np", 2, "--grace", 1),
        *only_rank(0, "sleep 0.3; exit 5", others="trap '' TERM; sleep 60 & wait; sleep 60"),
    )

    assert job.code == 5
    assert 1 < job.seconds < 10  # the default of --grace


# ---- --summary ----


def told_of(launcher, tmp_path, *arguments) -> dict:
    file = tmp_path / "summary.json"
    job = launcher.run("--summary", file, *arguments)
    content = summary_of(file, job)
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]
    return content


def test_the_summary_of_a_success(launcher, tmp_path):
    content = told_of(launcher, tmp_path, "-np", 2, "sleep", 0.2)

    assert content["version"] == 1
    assert re.fullmatch("[0-9a-f]{32}", content["job_id"])
    assert (content["outcome"], content["reason"], content["culprit"]) == (
        "success",
        None,
        None,
    )
    assert 0.2 <= content["seconds"] < 30
    assert [rank["rank"] for rank in content["ranks"]] == [0, 1]
    for rank in content["ranks"]:
        assert (rank["exit_code"], rank["signal"], rank["class"]) == (0, None, "ok")
        assert rank["pid"] > 1
        assert 0.1 < rank["seconds"] < 30
        assert rank["max_rss_bytes"] > 100_000
    assert [(host["state"], host["error"]) for host in content["hosts"]] == [("ok", None)]
    assert content["survivors"] == []


def test_the_summary_of_a_failure(launcher, tmp_path):
    script = only_rank(1, "echo oh >&2; kill -SEGV $$")

    content = told_of(launcher, tmp_path, "-np", 3, *script)

    assert (content["outcome"], content["reason"]) == ("failed", "signal")
    culprit = content["culprit"]
    assert (culprit["rank"], culprit["local_rank"]) == (1, 1)
    assert (culprit["exit_code"], culprit["signal"]) == (None, "SIGSEGV")
    assert culprit["stderr_tail"] == ["oh"]
    assert [rank["class"] for rank in content["ranks"]] == [
        "stopped",
        "culprit",
        "stopped",
    ]


@pytest.mark.parametrize(
    "arguments, reason, code",
    [
        (("-np", 1, "false"), "exit", 1),
        (("-np", 1, "no-such-command"), "exec", 127),
        (("-np", 1, "--timeout", 1, "sleep", 60), "timeout", 124),
        (("-np", 9, "-H", "localhost:1", "true"), "start", 2),
    ],
)
def test_the_summary_gives_the_reason(launcher, tmp_path, arguments, reason, code):
    content = told_of(launcher, tmp_path, *arguments)

    assert (content["reason"], content["exit_code"]) == (reason, code)


def test_a_missed_start_limit_is_124(launcher, tmp_path):
    # An agent that never speaks.
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\nexec sleep 60\n")
    agent.chmod(0o755)

    job = launcher.run("-np", 1, "--start-timeout", 1, "true", env={"HOROVOD_AGENT": str(agent)})

    assert job.code == 124
    assert 1 <= job.seconds < 6  # 30 without the flag


def test_ranks_that_do_not_follow_the_first_end_in_time_are_ended(launcher, tmp_path):
    flags = ("-np", 3, "--exit-timeout", 1, "--grace", 1, "--summary", tmp_path / "s.json")

    job = launcher.run(*flags, "sh", "-c", "[ $HOROVOD_RANK = 1 ] || exec sleep 60")

    assert job.code == 124
    assert wording.line(wording.EXIT_TIMEOUT, rank=1, ranks="0,2") in job.said, job.said
    assert 1 < job.seconds < 30
    assert summary_of(tmp_path / "s.json", job)["reason"] == "timeout"


def test_ranks_that_follow_the_first_end_in_time_are_a_success(launcher):
    job = launcher.run(
        "-np", 2, "--exit-timeout", 30, "sh", "-c", "[ $HOROVOD_RANK = 1 ] || sleep 0.5"
    )

    assert (job.code, job.said) == (0, [])
