# SPDX-License-Identifier: Apache-2.0
"""horovod.numpy in jobs of one and two ranks."""

from __future__ import annotations

import re

import pytest
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
