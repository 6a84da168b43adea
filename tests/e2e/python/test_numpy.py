# SPDX-License-Identifier: Apache-2.0
"""horovod.numpy in jobs of one and two ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import Launcher
from ranks import PROGRAMS, RunRanks

pytest.importorskip("numpy", reason="NumPy is not installed")
PROGRAM = "numpy_ops.py"


@pytest.mark.parametrize("ranks", [1, 2])
def test_all_cases_pass(run_ranks: RunRanks, ranks: int) -> None:
    cases = re.findall(r"^@case\ndef (\w+)\(", (PROGRAMS / PROGRAM).read_text(), re.MULTILINE)

    job = run_ranks(ranks, PROGRAM)

    assert job.exit_code == 0, str(job)
    for rank in range(ranks):
        wanted = [*(f"ok {case}" for case in cases), f"world {rank} {ranks}"]
        assert job.lines(rank) == wanted, str(job)


@pytest.fixture
def gpu(root: Path) -> dict[str, str]:
    """Variables of a machine with a GPU: the stand-in's."""
    folder = Path(os.environ.get("HVD_BIN", root / "build/release/bin")).parent / "tests/fake_gpu"
    if not (folder / "libcuda.so.1").is_file():
        pytest.skip("no GPU, and no build tree with the stand-in for the CUDA driver")
    return {"LD_LIBRARY_PATH": str(folder)}


@pytest.mark.parametrize("ranks", [1, 2])
def test_arrays_of_a_gpu(run_ranks: RunRanks, gpu: dict[str, str], ranks: int) -> None:
    job = run_ranks(ranks, "numpy_gpu.py", env=gpu)

    assert job.exit_code == 0, str(job)
    for rank in range(ranks):
        assert "done" in job.lines(rank), str(job)


def test_arrays_of_the_host_load_neither_cuda_nor_nccl(
    run_ranks: RunRanks, gpu: dict[str, str]
) -> None:
    if not (Path(gpu["LD_LIBRARY_PATH"]) / "libnccl.so.2").is_file():
        pytest.skip("the build tree has no stand-in for NCCL, whose headers were not found")
    job = run_ranks(2, "loads_no_cuda.py", env=gpu)

    assert job.exit_code == 0, str(job)
    for rank in range(2):
        assert job.lines(rank) == [
            "init: False False",
            "allreduce: False False",
            "loaded here: True True",
        ], str(job)


def test_exceptions_that_end_no_rank_end_no_job(run_ranks: RunRanks) -> None:
    job = run_ranks(2, "handled_exceptions.py")

    assert job.exit_code == 0, str(job)
    for rank in range(2):
        assert job.lines(rank) == ["sum 2 children 1 1"], str(job)


def test_a_typing_error_in_a_console_of_a_rank_ends_no_job(launcher: Launcher) -> None:
    program = PROGRAMS / "console_of_rank_0.py"
    typed = b"imprt os\n1 / 0\nprint('size', hvd.size())\n"
    with launcher.start(
        *("-np", 2, "--stdin", 0, sys.executable, program), stdin=subprocess.PIPE
    ) as running:
        assert running.process.stdin is not None
        running.process.stdin.write(typed)
        running.process.stdin.close()
        job = running.end()

    assert job.code == 0, job
    # After the prompts, of which the last is a line alone where the other rank prints after it.
    ends = [end for line in job.lines_of(0) if (end := line.rpartition(">>> ")[2])]
    assert ends == ["size 2", "sum 2"], job
    assert "ZeroDivisionError: division by zero" in job.stderr, job
    assert "SyntaxError: invalid syntax" in job.stderr, job
