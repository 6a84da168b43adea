# SPDX-License-Identifier: Apache-2.0
"""How the tests of the Python front ends start jobs of several ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
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
        command = [horovodrun, "-np", str(np), *flags, sys.executable, PROGRAMS / program]
        result = subprocess.run(
            [*map(str, command), *arguments],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
        )
        return Job(
            result.returncode,
            result.stdout.decode(errors="replace"),
            result.stderr.decode(errors="replace"),
        )

    return run
