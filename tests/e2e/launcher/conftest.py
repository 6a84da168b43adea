# SPDX-License-Identifier: Apache-2.0
"""How the tests of the launcher start jobs."""

from __future__ import annotations

import os
import subprocess

import pytest


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
