# SPDX-License-Identifier: Apache-2.0
"""What srun itself says while the ranks run. Here srun is a script that starts its one task at
once; tests/e2e/external has a real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import wording

SRUN = """#!/bin/sh
while [ "$1" != /bin/sh ]; do shift; done
( until [ -e "$TALK" ]; do sleep 0.05; done; yes "a word" | head -n "$LINES" >&2 ) &
SLURM_LOCALID=0 SLURMD_NODENAME=node1 exec "$@"
"""
LEASE = 3


def allocation(folder: Path, lines: int) -> dict[str, str]:
    program = folder / "srun"
    program.write_text(SRUN)
    program.chmod(0o755)
    return {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "node1",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_TASKS_PER_NODE": "1",
        "TALK": str(folder / "talk"),
        "LINES": str(lines),
    }


@pytest.mark.parametrize("lines", [50_000, 200_000])
def test_words_that_nobody_reads_stop_no_heartbeat(launcher, tmp_path, lines):
    """Some megabytes of them wait; what comes after is not kept."""
    rank = f'touch "$TALK"; sleep {2 * LEASE}; echo done'
    command = ("--lease", LEASE, "sh", "-c", rank)
    unread, stderr = os.pipe()
    with launcher.start(*command, env=allocation(tmp_path, lines), stderr=stderr) as job:
        os.close(stderr)
        assert job.wait_for(b"\n").endswith(b":done\n")  # the rank outlived the lease
        with os.fdopen(unread, "rb") as late:
            said = late.read().decode()
        ended = job.end()

    assert ended.code == 0, said[-2000:]
    shown = said.count(wording.line(wording.SRUN_SAYS, text="a word") + "\n")
    assert shown == lines if lines == 50_000 else 50_000 < shown < lines, said[-2000:]
    assert (wording.NO_MORE_OF_SRUN + "\n" in said) == (shown < lines), said[-2000:]
