# SPDX-License-Identifier: Apache-2.0
"""DIR/launcher.log, env.json and summary.json of --output-filename, beside the ranks' files."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
import wording
from commands import summary_of


def test_a_log_holds_no_secret_and_is_its_owners_only(launcher, tmp_path):
    log = tmp_path / "launcher.log"
    log.write_text("of an earlier job")
    log.chmod(0o666)

    job = launcher.run(
        *("-np", 1, "--output-filename", tmp_path, "--verbose", "--env", "KEY=s3cret"),
        *("sh", "-c", "true", "--password", "s3cret"),
    )

    assert job.code == 0
    assert b"KEY=s3cret" in job.err  # the console is the user's
    said = log.read_text()
    assert "s3cret" not in said and "of an earlier job" not in said
    assert "Z   KEY\n" in said
    command = wording.WITHOUT_ARGUMENTS.format(program="sh", count=4)
    assert f"Z command: {command}\n" in said
    assert log.stat().st_mode & 0o777 == 0o600


def test_what_ranks_had_in_their_environments_is_kept_without_secrets(launcher, tmp_path):
    out = tmp_path / "out"
    show = ("sh", "-c", "cat /proc/$$/environ")

    job = launcher.run(
        *("-np", 2, "--output-filename", out, "--env", "NCCL_DEBUG=INFO", "--env", "MINE=s3cret"),
        *show,
        env={"WANDB_API_KEY": "s3cret"},
    )

    assert job.code == 0
    file = out / "env.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in file.read_text()
    told = json.loads(file.read_text())
    (host,) = told["hosts"]
    for rank in told["ranks"]:
        has = dict(
            line.split("=", 1)
            for line in (out / f"rank.{rank['rank']}" / "stdout").read_text().split("\0")[:-1]
        )
        tells = host["env"] | rank["env"]
        assert tells["NCCL_DEBUG"] == "INFO" and tells["HOROVOD_RANK"] == str(rank["rank"])
        assert tells["MINE"] is None and tells["WANDB_API_KEY"] is None
        # The agent adds the record of what launchers set.
        assert tells.keys() | {"HOROVOD_LAUNCHER_VARIABLES"} == has.keys()
        assert all(has[name] == value for name, value in tells.items() if value is not None)


def test_environments_that_cannot_be_kept_are_one_warning(launcher, tmp_path):
    os.mkfifo(tmp_path / "env.json")

    job = launcher.run("-np", 1, "--output-filename", tmp_path, "echo", "a")

    assert (job.code, job.out) == (0, b"[0]<stdout>:a\n")
    assert job.said == [
        wording.line(f"{wording.NO_FILE}; {wording.GOES_ON}", file=f"{tmp_path}/env.json")
    ]


def test_a_log_has_no_arguments_of_the_program_that_starts_the_ranks(launcher, tmp_path):
    mpirun, out = tmp_path / "mpirun", tmp_path / "out"
    mpirun.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo "mpirun (Open MPI) 4.1.4"\nexit 3\n'
    )
    mpirun.chmod(0o755)

    job = launcher.run(
        *("--mpi", "-np", 1, "--output-filename", out, "--summary", tmp_path / "summary"),
        *("sh", "-c", "true", "--password", "s3cret"),
        env={"HOROVOD_MPIRUN": str(mpirun)},
    )

    assert job.code == 3
    assert b"exec -- sh -c true --password s3cret" in job.err  # the console is the user's
    log = (out / "launcher.log").read_text()
    assert "s3cret" not in log
    line = wording.line(wording.STARTED_BY, command=wording.WITHOUT_ARGUMENTS)
    begun = wording.pattern(line, program=re.escape(str(mpirun)), count=r"\d+")
    assert re.search(f"Z {begun}\n", log)
    assert (out / "summary.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "summary").stat().st_mode & 0o777 == 0o666 & ~own_umask()


def own_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_summary_of_an_earlier_job_is_gone_once_the_next_has_started(launcher, tmp_path):
    summary = tmp_path / "summary.json"
    first = launcher.run("-np", 1, "--output-filename", tmp_path, "true")
    assert summary_of(summary, first)["outcome"] == "success"

    script = ("sh", "-c", "echo up; sleep 60")
    with launcher.start("-np", 1, "--output-filename", tmp_path, *script) as job:
        job.wait_for(b"up")
        job.signal(signal.SIGKILL)
        job.process.wait(60)

    assert not summary.exists()


def test_a_log_that_is_a_pipe_without_a_reader_is_one_warning(launcher, tmp_path):
    os.mkfifo(tmp_path / "launcher.log")

    job = launcher.run("-np", 1, "--output-filename", tmp_path, "echo", "a")

    assert (job.code, job.out) == (0, b"[0]<stdout>:a\n")
    assert job.said == [
        wording.line(f"{wording.NO_FILE}; {wording.GOES_ON}", file=f"{tmp_path}/launcher.log")
    ]


def test_a_summary_that_cannot_be_written_fails_the_job_everywhere(launcher, tmp_path):
    job = launcher.run("-np", 1, "--output-filename", tmp_path, "--summary", "/dev/full", "true")

    assert job.code == 125
    (said,) = job.said
    assert wording.NO_SUMMARY.format(file="/dev/full") in said
    end = wording.line(wording.beginning(wording.LOG_ENDS, code=125))
    assert end in (tmp_path / "launcher.log").read_text()
    summary = summary_of(tmp_path / "summary.json", job)
    assert (summary["outcome"], summary["exit_code"]) == ("failed", 125)
    assert summary["warnings"] == [said.removeprefix("horovodrun: ")]


def test_a_summary_may_be_in_the_folder_that_is_made_for_it(launcher, tmp_path):
    out = tmp_path / "new" / "out"

    job = launcher.run("-np", 1, "--output-filename", out, "--summary", out / "s.json", "true")

    assert (job.code, job.said) == (0, [])
    assert (out / "s.json").read_bytes() == (out / "summary.json").read_bytes()


def test_a_summary_that_is_refused_is_in_the_log(launcher, tmp_path):
    flags = ("--output-filename", tmp_path, "--summary", tmp_path / "no" / "s.json")

    job = launcher.run("-np", 1, *flags, "true")

    assert job.code == 2
    (said,) = job.said
    assert f"Z {said}\n" in (tmp_path / "launcher.log").read_text()
    assert summary_of(tmp_path / "summary.json", job)["outcome"] == "failed"


def test_a_folder_that_cannot_be_written_is_not_said_to_harm_nobody(launcher, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a read-only file system needs root")
    script = f'mount -t tmpfs -o ro none {tmp_path} && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")

    job = launcher.run("-np", 1, "--output-filename", tmp_path, "true", prefix=prefix)

    if b"mount:" in job.err:
        pytest.skip("no tmpfs can be mounted here")
    assert job.code == 2
    assert "rank.0" in job.said[-1]
    assert wording.GOES_ON not in job.stderr, job


def test_files_of_an_earlier_job_are_written_anew_in_a_folder_that_cannot_be(launcher, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a read-only file system needs root")
    folder, files = tmp_path / "folder", tmp_path / "files"
    folder.mkdir()
    files.mkdir()
    names = ("env.json", "launcher.log")
    for name in names:
        (files / name).write_text("of an earlier job")
        (files / name).chmod(0o644)
    mounts = [f"mount -t tmpfs none {folder}", f"mkdir {folder}/rank.0"]
    mounts += [f"mount -t tmpfs none {folder}/rank.0"]
    for name in names:
        mounts += [f"touch {folder}/{name}", f"mount --bind {files}/{name} {folder}/{name}"]
    script = "; ".join(["set -e", *mounts, f"mount -o remount,ro {folder}", 'exec "$@"'])
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")

    job = launcher.run(
        *("-np", 1, "--output-filename", folder, "--env", "NCCL_DEBUG=INFO", "true"), prefix=prefix
    )

    if b"mount:" in job.err:
        pytest.skip("no tmpfs can be mounted here")
    assert job.code == 0
    assert [f"{folder}/summary.json: Read-only" in said for said in job.said] == [True]
    assert json.loads((files / "env.json").read_text())["hosts"][0]["env"]["NCCL_DEBUG"] == "INFO"
    end = wording.line(wording.beginning(wording.LOG_ENDS, code=0))
    assert f"Z {end}" in (files / "launcher.log").read_text()
    for name in names:
        assert (files / name).stat().st_mode & 0o777 == 0o600, name


def test_the_end_of_a_start_that_failed_has_its_time(launcher, tmp_path):
    shell = tmp_path / "shell"
    shell.write_text("#!/bin/sh\nexec sleep 30\n")
    shell.chmod(0o755)
    flags = ("--output-filename", tmp_path, "--start-timeout", 2, "-H", "elsewhere.invalid:1")

    job = launcher.run("-np", 1, *flags, "--remote-shell", shell, "true")

    assert job.code in (124, 125)  # as the shell's timeout or the job's ends first
    text = (tmp_path / "launcher.log").read_text()
    end = wording.pattern(wording.LOG_ENDS, code=job.code, seconds=r"(\d+\.\d)")
    match = re.search(f"{wording.PREFIX}{end}\n", text)
    assert match and float(match[1]) >= 1, text
