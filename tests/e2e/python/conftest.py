# SPDX-License-Identifier: Apache-2.0
"""How the tests of the Python front ends start jobs of several ranks."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest
from commands import run_command, summary_of
from ranks import PROGRAMS, Job, RunRanks
from spark_cluster import spark, spark_events  # noqa: F401


@pytest.fixture(scope="session")
def horovodrun(request: pytest.FixtureRequest) -> Path:
    """The program: in HVD_BIN for development builds, else the installed one."""
    folder = os.environ.get("HVD_BIN")
    return Path(folder or request.getfixturevalue("prefix") / "bin") / "horovodrun"


@pytest.fixture(scope="session")
def run_ranks(horovodrun: Path) -> RunRanks:
    """run_ranks(np, program, *arguments): runs one of `programs`, or any path, under horovodrun."""

    def run(
        np: int,
        program: str | Path,
        *arguments: str,
        timeout: float = 240,
        env: dict[str, str] | None = None,
        flags: tuple[str, ...] = (),
    ) -> Job:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "summary.json"
            ended = run_command(
                *(horovodrun, "-np", np, "--summary", file, *flags),
                *(sys.executable, PROGRAMS / program, *arguments),
                timeout=timeout,
                env={**os.environ, **(env or {})},
            )
            return Job(ended.code, ended.stdout, ended.stderr, summary_of(file, ended))

    return run
