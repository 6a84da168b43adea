# SPDX-License-Identifier: Apache-2.0
"""More hosts than the limit of open files has room for."""

from __future__ import annotations

import wording


def test_too_many_hosts_for_the_limit_are_refused_before_any_is_started(launcher, tmp_path):
    shell = tmp_path / "shell"
    shell.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    shell.chmod(0o755)
    hosts = ("-H", "n[1-20]:1", "--remote-shell", str(shell))

    job = launcher.run(*hosts, "true", prefix=("prlimit", "--nofile=100:100"))

    assert job.code == 125
    (said,) = job.said
    numbers = {"count": 20, "starter": shell, "need": 148, "limit": 100}
    assert wording.FILES_OF_HOSTS.format(**numbers) in said
    assert not (tmp_path / "started").exists()


def test_the_soft_limit_is_raised_for_hosts_and_restored_for_ranks(launcher, tmp_path):
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    shell.chmod(0o755)
    hosts = ("-H", "elsewhere:1", "--remote-shell", str(shell))
    limits = ("prlimit", "--nofile=60:400")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    job = launcher.run(*hosts, "sh", "-c", "ulimit -Sn; ulimit -Hn", prefix=limits, env=cache)

    assert (job.code, job.lines) == (0, ["[0]<stdout>:60", "[0]<stdout>:400"]), job.err
