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

PARTS = (
    "tensorflow_arguments.py",
    "tensorflow_curves.py",
    "tensorflow_gradients.py",
    "tensorflow_rows.py",
    "tensorflow_sessions.py",
    "tensorflow_training.py",
)


def cases_of(*programs: str) -> list[str]:
    texts = [(PROGRAMS / program).read_text() for program in programs]
    return [
        name for text in texts for name in re.findall(r"^@case\ndef (\w+)\(", text, re.MULTILINE)
    ]


# One job for each number of ranks covers all cases of a program.
CASES = [
    *(
        ("tensorflow_ops.py", n, one)
        for n in (1, 2, 4)
        for one in cases_of("tensorflow_ops.py", *PARTS)
    ),
    *(("tensorflow_sets.py", n, one) for n in (1, 2, 4) for one in cases_of("tensorflow_sets.py")),
]


@pytest.fixture(scope="module")
def job_of(run_ranks: RunRanks):
    """A program of cases is run once for each number of ranks."""
    jobs: dict[tuple[str, int], Job] = {}

    def job(program: str, ranks: int) -> Job:
        if (program, ranks) not in jobs:
            jobs[program, ranks] = run_ranks(ranks, program, timeout=400)
        return jobs[program, ranks]

    return job


@pytest.mark.parametrize(("program", "ranks", "case"), CASES)
def test_operations(job_of, program: str, ranks: int, case: str) -> None:
    job = job_of(program, ranks)
    for rank in range(ranks):
        assert f"ok {case}" in job.lines(rank), job


@pytest.mark.parametrize(
    ("program", "ranks"), sorted({(program, ranks) for program, ranks, _ in CASES})
)
def test_the_programs_end_well(job_of, program: str, ranks: int) -> None:
    assert job_of(program, ranks).exit_code == 0, job_of(program, ranks)


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
    assert job.classes == ["lost_peer", "culprit", "lost_peer"], job
    for rank in (0, 2):
        assert any(line.startswith("lost: ") for line in job.lines(rank)), job
