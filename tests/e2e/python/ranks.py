# SPDX-License-Identifier: Apache-2.0
"""A job of several ranks, as the tests of the Python front ends see it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs"
_LINE = re.compile(r"\[(\d+)\]<stdout>:(.*)")


@dataclass(frozen=True)
class Job:
    """A job that has ended."""

    exit_code: int
    stdout: str
    stderr: str
    summary: dict = field(default_factory=dict)  # of horovodrun's jobs: what --summary tells

    @property
    def culprit(self) -> int:
        return self.summary["culprit"]["rank"]

    @property
    def classes(self) -> list[str]:
        """How each rank ended, in the words of the summary."""
        return [rank["class"] for rank in self.summary["ranks"]]

    def lines(self, rank: int) -> list[str]:
        """What a rank wrote to its standard output."""
        matches = map(_LINE.fullmatch, self.stdout.splitlines())
        return [match[2] for match in matches if match and int(match[1]) == rank]

    def __str__(self) -> str:
        return f"exit code {self.exit_code}\n-- stdout\n{self.stdout}\n-- stderr\n{self.stderr}"


RunRanks = Callable[..., Job]
