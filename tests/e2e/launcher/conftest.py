# SPDX-License-Identifier: Apache-2.0
"""How the tests of the launcher start jobs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from jobs import Launcher


@pytest.fixture(scope="session")
def horovodrun(request: pytest.FixtureRequest) -> Path:
    """The program: in HVD_BIN for development builds, else the installed one."""
    folder = os.environ.get("HVD_BIN")
    return Path(folder or request.getfixturevalue("prefix") / "bin") / "horovodrun"


@pytest.fixture(scope="session")
def launcher(horovodrun: Path) -> Launcher:
    return Launcher(horovodrun)


@pytest.fixture
def own_pids() -> tuple[str, ...]:
    """A command prefix that gives its command PIDs of its own, so that survivors can be counted."""
    prefix = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if os.geteuid() != 0:
        prefix += ("--user", "--map-root-user")
    tried = subprocess.run([*prefix, "true"], capture_output=True, timeout=20)
    if tried.returncode != 0:
        pytest.skip(f"no PID namespace here: {tried.stderr.decode().strip()}")
    return prefix
