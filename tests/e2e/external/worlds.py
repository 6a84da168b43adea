# SPDX-License-Identifier: Apache-2.0
"""Programs started by launchers that are not ours."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from commands import Ended, run_command

PROGRAMS = Path(__file__).resolve().parent / "programs"
ROLL_CALL = (sys.executable, str(PROGRAMS / "roll_call.py"))
TWO_WORLDS = (sys.executable, str(PROGRAMS / "two_worlds.py"))

# Of a launcher that the tests themselves run under.
_OF_LAUNCHERS = ("HOROVOD_", "OMPI_", "PMI", "SLURM_", "FLUX_", "TORCHELASTIC_", "JSM_")


def world_of(ended: Ended) -> list[dict[str, Any]]:
    """The lines of roll_call.py's ranks, in the order of ranks."""
    worlds = worlds_of(ended)
    assert len(worlds) == 1, ended
    return worlds[0]


def worlds_of(ended: Ended) -> list[list[dict[str, Any]]]:
    """The same of several worlds, whose ranks 0 wrote to one place."""
    assert ended.code == 0, ended
    return [json.loads(line) for line in ended.lines if line.startswith("[{")]


def environment(**variables: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "HOROVOD_LIBRARY" or not name.startswith(_OF_LAUNCHERS)
    }
    return {**kept, "HOROVOD_LOG_LEVEL": "info", **variables}


def run(*command: str, timeout: float = 100, env: dict[str, str] | None = None) -> Ended:
    return run_command(*command, timeout=timeout, env=env or environment())


def check_one_host(world: list[dict[str, Any]], size: int) -> None:
    assert [rank["rank"] for rank in world] == list(range(size))
    assert {rank["size"] for rank in world} == {size}
    assert sorted(rank["local"] for rank in world) == [[n, size] for n in range(size)]
    assert {tuple(rank["cross"]) for rank in world} == {(0, 1)}
    assert len({rank["pid"] for rank in world}) == size


def check_two_worlds(ended: Ended, size: int) -> None:
    """Of two_worlds.py, whose ranks init, shut down and init again."""
    assert ended.code == 0, ended
    assert ended.stdout.splitlines() == [f"world 0 of {size}", f"world 1 of {size}"], ended
