# SPDX-License-Identifier: Apache-2.0
"""A rank that the kernel killed for want of memory is told from one that somebody else killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import wording
from commands import summary_of
from support.memory_limit import MemoryLimit

MIB = 1 << 20
EAT = "x = bytearray(300 << 20)"
RANK = f"""
import os, time
print(os.getpid(), flush=True)
if os.environ["HOROVOD_RANK"] == "1":
    if os.fork() == 0:
        y = bytearray(20 << 20)
        for page in range(0, len(y), 4096): y[page] = 1
        time.sleep(60)
        os._exit(0)
    time.sleep(0.5)  # the agent turns to the kernel's log soon after the start, not before it
    {EAT}
    for page in range(0, len(x), 4096): x[page] = 1
time.sleep(60)
"""
PYTHON = (sys.executable, "-S", "-E", "-c")


def is_kernel_log_ours() -> bool:
    """Whether it can be read, and has the numbers that processes have here."""
    if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
        return False
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    os.close(log)
    return True


@pytest.fixture
def limit() -> Iterator[MemoryLimit]:
    try:
        with MemoryLimit.make(64 * MIB) as made:
            yield made
    except (PermissionError, FileNotFoundError) as error:
        pytest.skip(f"a memory cgroup needs root and a kernel that lets it make one: {error}")


def test_a_rank_that_ran_out_of_memory_is_told_with_its_cgroups_counter(launcher, limit, tmp_path):
    summary = tmp_path / "summary.json"

    job = launcher.run(
        *("-np", 2, "--bind-to", "none", "--summary", summary, *PYTHON, RANK),
        preexec_fn=limit.enter,
    )

    told = summary_of(summary, job)
    assert limit.kills() == 1
    assert job.code == 137, job.err
    peak = wording.pattern(wording.MEMORY_PEAK, size=r"6[34](\.\d)? MiB")
    words = wording.pattern(wording.OF_MEMORY, limit="64 MiB") + (peak if limit.has_peak() else "")
    assert re.search(words + "(;|$)", job.said[0])
    if is_kernel_log_ours():
        pid = told["culprit"]["pid"]
        kib = r"\d+kB"
        words = wording.pattern(wording.MEMORY_KERNEL, pid=pid, name=r"\S+", total=kib, own=kib)
        assert re.search(words, job.said[0])
    size = r"\d+(\.\d)? MiB"
    sizes = {"size": size, "first": r"2\d(\.\d)? MiB", "second": size}
    assert re.search(wording.pattern(wording.MEMORY_LEFT, **sizes) + "$", job.said[0])
    assert job.said[0].startswith(wording.line(wording.culprit(1)))
    assert told["reason"] == "oom"


def test_kills_of_before_count_for_nothing(launcher, limit):
    eater = f"{EAT}\nfor page in range(0, len(x), 4096): x[page] = 1"
    before = subprocess.run([*PYTHON, eater], preexec_fn=limit.enter, timeout=60)
    assert before.returncode == -signal.SIGKILL and limit.kills() == 1
    quiet = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"

    with launcher.start(*("-np", 1, *PYTHON, quiet), preexec_fn=limit.enter) as job:
        job.wait_for(b"\n")
        os.kill(int(bytes(job.text["out"]).decode().rpartition(":")[2]), signal.SIGKILL)
        ended = job.end()

    assert ended.code == 137
    assert ended.said[0].endswith(f": {wording.OF_SIGKILL}")
