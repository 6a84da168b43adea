# SPDX-License-Identifier: Apache-2.0
"""What --dry-run prints is what a rank then has."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import wording

TELL = """
import json, os, sys
print(json.dumps({"env": dict(os.environ), "cpus": sorted(os.sched_getaffinity(0)),
                  "cwd": os.getcwd(), "argv": sys.argv[1:]}))
"""

# Differs from one run to the next, by design.
OF_THE_RUN = {"HOROVOD_JOB_ID", "HOROVOD_AGENT_SOCKET", "MASTER_PORT"}


def tell(folder: Path) -> tuple[str, ...]:
    script = folder / "tell.py"
    script.write_text(TELL)
    return (sys.executable, "-S", "-E", str(script), "a b", "$HOME", "--np", "9")


@pytest.mark.parametrize(
    "flags",
    [
        ("-np", 2),
        ("-np", 2, "--bind-to", "none"),
        ("-np", 3, "--env", "GREETING=hello world", "--env-clean", "--env-pass", "HO*"),
        ("-np", 1, "--fusion-threshold-mb", 3, "--cycle-time-ms", 2),
    ],
)
def test_a_rank_has_what_the_plan_says(launcher, tmp_path, flags):
    command = tell(tmp_path)
    planned = launcher.run(*flags, "--dry-run", "--output-format", "json", *command, cwd=tmp_path)
    ran = launcher.run(*flags, *command, cwd=tmp_path)

    plan = json.loads(planned.out)
    assert (planned.code, ran.code) == (0, 0)
    told = {int(line[1]): json.loads(line.split(":", 1)[1]) for line in ran.lines}
    assert sorted(told) == [entry["rank"] for entry in plan["ranks"]]
    for entry in plan["ranks"]:
        rank = told[entry["rank"]]
        for name, value in entry["env"].items():
            if name not in OF_THE_RUN:
                assert rank["env"][name] == value
            assert name in rank["env"]
        inherited = {} if "--env-clean" in flags else dict(os.environ)
        unplanned = set(rank["env"]) - set(entry["env"]) - set(inherited) - {"LC_CTYPE"}
        assert {name for name in unplanned if not name.startswith("HO")} == set()
        assert rank["cpus"] == (entry["cpus"] or sorted(os.sched_getaffinity(0)))
        assert rank["cwd"] == entry["cwd"] == str(tmp_path)
        assert [sys.executable, "-S", "-E", command[3], *rank["argv"]] == entry["argv"]


def test_a_dry_run_starts_no_rank(launcher, tmp_path):
    job = launcher.run("-np", 2, "--dry-run", "touch", tmp_path / "ran")

    assert job.code == 0
    assert b"touch" in job.out
    assert not (tmp_path / "ran").exists()


def test_an_environment_has_no_secret(launcher):
    # All that the launcher adds is in the plan, and none of it opens anything to another user.
    job = launcher.run("-np", 1, "--env-clean", "env")

    assert not [line for line in job.lines if "SECRET" in line or "KEY" in line or "TOKEN" in line]


def limits_and_mask() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    os.umask(0o027)
    os.nice(3)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))


def test_a_rank_is_given_what_horovodrun_was_given(launcher):
    script = (
        "sh",
        "-c",
        "grep -E '^(Umask|Sig(Blk|Ign)|NoNewPrivs|Seccomp|Cap|Uid|Gid|Groups)' /proc/self/status;"
        "ulimit -a; nice; ls /proc/self/fd | wc -l",
    )
    bare = subprocess.run(
        script,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        preexec_fn=limits_and_mask,
        timeout=30,
    )

    job = launcher.run("-np", 1, "--bind-to", "none", *script, preexec_fn=limits_and_mask)

    assert job.code == 0
    assert [line.removeprefix("[0]<stdout>:") for line in job.lines] == bare.stdout.splitlines()


@pytest.mark.parametrize(
    "limit, warning, remedy",
    [
        ("-Sn 100", wording.beginning(wording.SOFT_LIMIT, limit=100), "ulimit -n "),
        ("-s 512", wording.SMALL_STACKS.format(size="512 KiB"), "ulimit -s 8192"),
    ],
)
def test_a_job_of_this_machine_alone_is_told_of_its_limits(launcher, limit, warning, remedy):
    job = launcher.run("-np", 2, "true", prefix=("sh", "-c", f'ulimit {limit}; exec "$@"', "sh"))

    assert job.code == 0, job.err
    assert [line for line in job.said if warning in line and remedy in line], job.said
