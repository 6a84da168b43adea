# SPDX-License-Identifier: Apache-2.0
"""How the exception of a rank reaches the process that started the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Programs search the message for these words of the original.
PROCESSES_EXITED = "Horovod detected that one or more processes exited with non-zero status"
MPIRUN_FAILED = "mpirun failed with exit code"


@dataclass(frozen=True)
class RankFailure:
    """An exception of one rank as text: the calling process unpickles nothing to learn of it."""

    rank: int
    host: str
    summary: str  # "ValueError: no data"
    traceback: str


class RemoteTraceback(Exception):
    """The traceback of a rank. It is the cause of a HorovodRankError, so that Python prints it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class HorovodRankError(RuntimeError):
    """The function that a job runs has raised an exception in `rank` on `host`."""

    def __init__(self, message: str, rank: int, host: str) -> None:
        super().__init__(message, rank, host)
        self.rank = rank
        self.host = host

    def __str__(self) -> str:
        return str(self.args[0])


def rank_error(
    failures: Sequence[RankFailure], opening: str = PROCESSES_EXITED
) -> HorovodRankError:
    """The error of a job, with its cause. `failures` has the first one first; ranks that failed
    with the same exception share a line of the message."""
    first = failures[0]
    folded: dict[str, list[RankFailure]] = {}
    for failure in failures:
        folded.setdefault(failure.summary, []).append(failure)
    lines = [f"{_places(alike)}: {summary}" for summary, alike in folded.items()]
    error = HorovodRankError(f"{opening}: " + "\n".join(lines), first.rank, first.host)
    error.__cause__ = RemoteTraceback(first.traceback)
    return error


def _places(failures: Sequence[RankFailure]) -> str:
    first, *others = failures
    text = f"rank {first.rank} (host {first.host})"
    if others:
        ranks = ",".join(str(rank) for rank in sorted(other.rank for other in others))
        text += f" and, alike, {'ranks' if len(others) > 1 else 'rank'} {ranks}"
    return text
