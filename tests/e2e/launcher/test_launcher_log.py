# SPDX-License-Identifier: Apache-2.0
"""DIR/launcher.log and DIR/summary.json of --output-filename, beside the files of the ranks."""

from __future__ import annotations

import json
import os
import signal


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
    assert "Z command: sh (with 4 arguments)\n" in said
    assert log.stat().st_mode & 0o777 == 0o600


def test_the_summary_of_an_earlier_job_is_gone_once_the_next_has_started(launcher, tmp_path):
    summary = tmp_path / "summary.json"
    assert launcher.run("-np", 1, "--output-filename", tmp_path, "true").code == 0
    assert json.loads(summary.read_text())["outcome"] == "success"

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
        f"horovodrun: --output-filename: cannot write {tmp_path}/launcher.log: it is no regular "
        "file; remove it; the job goes on without it"
    ]
