# SPDX-License-Identifier: Apache-2.0
"""`horovodrun doctor` on one machine: what it says, and that it starts nothing."""

from __future__ import annotations

import json

import pytest
import wording


def found(job) -> dict:
    assert job.err == b"", job.err
    return json.loads(job.out)


def test_a_machine_that_is_well_has_one_line(launcher):
    job = launcher.run("doctor", prefix=("sh", "-c", 'ulimit -c 0; exec "$@"', "sh"))

    assert (job.code, len(job.lines), job.err) == (0, 1, b"")
    assert job.lines[0].startswith("PASS  localhost  ")


def test_the_same_as_json(launcher):
    job = launcher.run("doctor", "--json", "-np", 1, "sh", "-c", "echo ran")

    assert job.code == 0
    report = found(job)
    (host,) = report["hosts"]
    assert (report["ok"], host["ok"], host["problems"]) == (True, True, [])
    assert host["facts"]["cpus"]
    assert report["links"] == []


def test_a_missing_program_fails_with_its_remedy(launcher, tmp_path):
    job = launcher.run("doctor", "-np", 2, "no-such-program")

    assert job.code == 1
    assert job.lines[0].startswith("FAIL  localhost  ")
    (line,) = [line for line in job.lines if "no-such-program" in line]
    why = wording.NOT_IN_PATH.format(program="no-such-program")
    assert line.startswith(f"      localhost: {why} (")
    assert line.endswith(wording.INSTALL_IT)


def test_a_plan_that_is_refused_fails_beside_the_hosts(launcher):
    job = launcher.run("doctor", "-np", 5, "-H", "localhost:4", "no-such-program")

    assert job.code == 1
    of_plan = "FAIL  plan  " + wording.MORE_THAN_SLOTS.format(np=5, slots=4)
    assert any(line.startswith(of_plan) for line in job.lines)
    assert wording.NOT_FOUND.format(program="no-such-program") in job.stdout


def test_a_program_of_that_name_needs_dashes_or_flags(launcher, tmp_path):
    program = tmp_path / "doctor"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)

    job = launcher.run("-np", 1, "doctor", env={"PATH": str(tmp_path) + ":/usr/bin:/bin"})

    assert job.lines == ["[0]<stdout>:here"]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["doctor", "--dry-run"], wording.DOCTOR_STARTS_NONE),
        (["-np", "1", "--json", "true"], wording.JSON_OF_DOCTOR),
    ],
)
def test_flags_of_one_are_refused_by_the_other(launcher, arguments, sentence):
    job = launcher.run(*arguments)

    assert job.code == 2
    assert sentence in job.said[0]


@pytest.mark.parametrize(
    "limit, said, remedy",
    [
        ("-s 512", wording.SMALL_STACKS.format(size="512 KiB"), "ulimit -s 8192"),
        ("-Sn 100", wording.beginning(wording.SOFT_LIMIT, limit=100), "ulimit -n "),
    ],
)
def test_a_limit_that_ranks_run_into_is_a_warning_with_its_remedy(launcher, limit, said, remedy):
    job = launcher.run("doctor", prefix=("sh", "-c", f'ulimit {limit}; exec "$@"', "sh"))

    assert job.code == 0, job.err
    assert [line for line in job.lines if said in line and remedy in line], job.lines
