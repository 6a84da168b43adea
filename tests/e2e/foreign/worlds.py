# SPDX-License-Identifier: Apache-2.0
"""Programs started by launchers that are not ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent / "programs"
ROLL_CALL = (sys.executable, str(PROGRAMS / "roll_call.py"))

# Of a launcher that the tests themselves run under.
_OF_LAUNCHERS = ("HOROVOD_", "OMPI_", "PMI", "SLURM_", "FLUX_", "TORCHELASTIC_", "JSM_")


@dataclass(frozen=True)
class Ended:
    """A launcher that has ended."""

    exit_code: int
    stdout: str
    stderr: str

    def world(self) -> list[dict[str, Any]]:
        """What the ranks of roll_call.py said, in the order of ranks."""
        assert self.exit_code == 0, self
        lines = [line for line in self.stdout.splitlines() if line.startswith("[")]
        assert len(lines) == 1, self
        return json.loads(lines[0])

    def __str__(self) -> str:
        return f"exit code {self.exit_code}\n-- stdout\n{self.stdout}\n-- stderr\n{self.stderr}"


def environment(**variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "HOROVOD_LIBRARY" or not name.startswith(_OF_LAUNCHERS)
    }
    return {**kept, "HOROVOD_LOG_LEVEL": "info", **variables}


def run(*command: str, timeout: float = 100, env: dict[str, str] | None = None) -> Ended:
    result = subprocess.run(
        command,
        env=env or environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
    )
    return Ended(
        result.returncode,
        result.stdout.decode(errors="replace"),
        result.stderr.decode(errors="replace"),
    )


def check_one_host(world: list[dict[str, Any]], size: int) -> None:
    assert [rank["rank"] for rank in world] == list(range(size))
    assert {rank["size"] for rank in world} == {size}
    assert sorted(rank["local"] for rank in world) == [[n, size] for n in range(size)]
    assert {tuple(rank["cross"]) for rank in world} == {(0, 1)}
    assert len({rank["pid"] for rank in world}) == size
