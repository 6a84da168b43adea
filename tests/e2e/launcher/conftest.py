# SPDX-License-Identifier: Apache-2.0
"""How the tests of the launcher start jobs."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from pathlib import Path

import pytest
from joining import Meeting


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


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(secrets.token_hex(32) + "\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def meeting(launcher, token):
    with contextlib.ExitStack() as stack:
        yield Meeting(launcher, token, stack)
