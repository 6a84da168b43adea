# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow in jobs of several ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import PROGRAMS, Job, RunRanks

from horovod.common.library import companion

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

PROGRAM = "tensorflow_ops.py"
CASES = re.findall(r"^@case\ndef (\w+)\(", (PROGRAMS / PROGRAM).read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def job_of(run_ranks: RunRanks):
    """The program is run once for each number of ranks."""
    jobs: dict[int, Job] = {}

    def job(ranks: int) -> Job:
        if ranks not in jobs:
            jobs[ranks] = run_ranks(ranks, PROGRAM, timeout=300)
        return jobs[ranks]

    return job


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_operations(job_of, case: str, ranks: int) -> None:
    job = job_of(ranks)
    for rank in range(ranks):
        assert f"ok {case}" in job.lines(rank), job


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_program_ends_well(job_of, ranks: int) -> None:
    assert job_of(ranks).exit_code == 0, job_of(ranks)


def test_the_op_library_needs_no_tensorflow() -> None:
    path = companion("libhorovod_tf.so")
    dynamic = subprocess.run(
        ["readelf", "--dynamic", "--wide", path], check=True, capture_output=True, text=True
    )
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic.stdout))

    assert "libhorovod.so" in needed
    assert needed <= {
        "libhorovod.so",
        "libc.so.6",
        "libm.so.6",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
    }


def test_one_libhorovod_serves_python_and_the_ops() -> None:
    code = (
        "import horovod.tensorflow as hvd; hvd.init(); hvd.allreduce([1.0]);"
        "print(sum('libhorovod.so' in line and 'r-xp' in line for line in open('/proc/self/maps')))"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)

    assert ran.stdout.strip() == "1", ran


def test_a_missing_tensorflow_gives_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ImportError('no tensorflow here')")
    for name in ("horovod.tensorflow", "horovod.tensorflow.keras", "horovod.keras"):
        ran = subprocess.run(
            [sys.executable, "-c", f"import {name}"],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert ran.returncode == 1
        assert "needs TensorFlow, which " in ran.stderr.splitlines()[-1], ran


def test_neither_torch_distributed_nor_mpi4py_is_imported() -> None:
    code = (
        "import sys, horovod.tensorflow, horovod.keras, horovod.tensorflow.keras;"
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'mpi4py')])"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)

    assert ran.stdout.strip() == "[]", ran


@pytest.mark.parametrize("how", ["exit", "exception"])
def test_a_rank_that_fails_is_the_culprit_and_the_others_lost_it(
    run_ranks: RunRanks, how: str
) -> None:
    job = run_ranks(3, "tensorflow_failure.py", how)

    assert job.exit_code == (9 if how == "exit" else 1), job
    assert "horovodrun: culprit: rank 1 " in job.stderr, job
    assert "horovodrun: lost a peer: ranks 0,2" in job.stderr, job
    for rank in (0, 2):
        assert any(line.startswith("lost: ") for line in job.lines(rank)), job
