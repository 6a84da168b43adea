# SPDX-License-Identifier: Apache-2.0
"""Hosts whose agents do not come up: each is named, with what is known of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import wording
from commands import summary_of


@pytest.fixture
def shell(tmp_path: Path):
    """A remote shell that does what `cases` of sh say of a host."""

    def make(cases: str) -> Path:
        file = tmp_path / "shell"
        file.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\n')
        file.chmod(0o755)
        return file

    return make


def test_all_hosts_that_fail_are_named_with_the_first(launcher, shell, tmp_path):
    program = shell(
        "a|d|e) echo no such pod as $1 >&2; exit 3;;\n"
        "b) echo it is asleep >&2; exit 4;;\n"
        "c) exec sleep 60;;"
    )
    summary = tmp_path / "s.json"

    job = launcher.run(
        "-np", 5, "-H", "a:1,b:1,c:1,d:1,e:1", "--remote-shell", program, "--summary", summary, "x"
    )

    assert job.code == 125
    *listed, last = job.said
    alike = [line for line in listed if "no such pod" in line]
    assert len(alike) == 1, job.said
    assert alike[0].startswith("horovodrun: a: ") and alike[0].endswith(
        wording.SAME_HOSTS.format(hosts="d, e")
    )
    asleep = wording.ENDED_WITH.format(code=4, text="it is asleep")
    assert any(line.startswith("horovodrun: b: ") and line.endswith(asleep) for line in listed), (
        job.said
    )
    assert wording.line(wording.NOT_WAITED_FOR, hosts="c") in listed
    assert last.startswith(wording.line(wording.NO_AGENT))  # whichever was the first
    assert job.seconds < 20  # and not --start-timeout
    assert {host["host"] for host in summary_of(summary, job)["hosts"]} == set("abde")


def test_one_host_that_fails_is_named_once(launcher, shell):
    program = shell("*) echo no such pod >&2; exit 3;;")

    job = launcher.run("-np", 1, "-H", "a:1", "--remote-shell", program, "x")

    assert job.code == 125
    assert len(job.said) == 1 and "no such pod" in job.said[0]


def test_a_missed_start_limit_tells_where_each_host_is(launcher, shell):
    # Each word is a sign of life, so no step ends before the whole start does.
    program = shell(
        "a) echo still booting >&2; while :; do echo wait; sleep 0.2; done;;\n"
        "b) while :; do echo wait; sleep 0.2; done;;"
    )

    job = launcher.run(
        "-np", 2, "-H", "a:1,b:1", "--remote-shell", program, "--start-timeout", 3, "x"
    )

    assert job.code == 124
    words = {line.split(": ")[1]: line for line in job.said}
    assert wording.STARTER_SAYS.format(starter=program, text="still booting") in words["a"]
    assert wording.NOTHING_CAME in words["b"]
    assert wording.PRINTED.format(text="wait; wait") in words["b"]
    assert wording.NO_WORD_FROM.format(hosts="a, b") + ";" in job.said[-1]
