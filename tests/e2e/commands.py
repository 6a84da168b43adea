# SPDX-License-Identifier: Apache-2.0
"""Commands that have ended, as all tests of installed programs see them."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TAGGED = re.compile(r"\[(\d+)\]<stdout>:(.*)")


@dataclass(frozen=True)
class Ended:
    code: int  # its exit code
    out: bytes
    err: bytes
    seconds: float = 0

    @property
    def stdout(self) -> str:
        return self.out.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.err.decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    def lines_of(self, rank: int) -> list[str]:
        """The lines that a rank of horovodrun wrote to its standard output, without the tag."""
        matches = map(_TAGGED.fullmatch, self.lines)
        return [match[2] for match in matches if match and int(match[1]) == rank]

    @property
    def said(self) -> list[str]:
        """horovodrun's own lines of standard error."""
        return [line for line in self.stderr.splitlines() if line.startswith("horovodrun: ")]

    def __str__(self) -> str:
        return f"exit code {self.code}\n-- stdout\n{self.stdout}\n-- stderr\n{self.stderr}"


def summary_of(file: Path, job: Ended) -> dict:
    """What the job has written to the file of --summary."""
    summary = json.loads(file.read_text())
    assert summary["exit_code"] == job.code, (summary, job)
    return summary


def run_command(*command: object, timeout: float, **options: object) -> Ended:
    """Runs the command to its end, or raises subprocess.TimeoutExpired after `timeout` seconds."""
    result = subprocess.run(
        [*map(str, command)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        **options,
    )
    return Ended(result.returncode, result.stdout, result.stderr)
