# SPDX-License-Identifier: Apache-2.0
"""The table of a job's ranks under a cell of a notebook, which changes while the job runs."""

from __future__ import annotations

import html
import sys
import time
from dataclasses import dataclass
from typing import Any

from horovod.runner.errors import RankFailure
from horovod.runner.job import Event, Result
from horovod.runner.rank_state import RankState

STATE_SECONDS = 2  # between two states of a rank
_REDRAW_SECONDS = 0.5
_UNKNOWN = "-"
_HEADINGS = ("rank", "host", "state", "CPUs", "GPU", "memory", "seconds")
_NO_PSUTIL = "CPUs and memory are measured by psutil: pip install horovod[notebook]"


def notebook_table() -> RankTable | None:
    """A table where a notebook runs this process, else None: a terminal does not show it."""
    ipython = sys.modules.get("IPython")
    if ipython is None or getattr(ipython.get_ipython(), "kernel", None) is None:
        return None
    return RankTable()


@dataclass
class _Row:
    label: str
    state: RankState


class RankTable:
    """Appears with the first state of a rank. `close` draws the last one."""

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._display: Any = None  # IPython's handle
        self._drawn = 0.0

    def add(self, event: Event) -> None:
        if isinstance(event, RankState):
            self._rows[event.rank] = _Row("running", event)
        elif isinstance(event, Result):
            self._end(event.rank, "done")
        elif isinstance(event, RankFailure):
            self._end(event.rank, event.summary)
        else:
            return
        if time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self._draw()

    def close(self) -> None:
        """The job has ended: what still ran was stopped."""
        for rank, row in self._rows.items():
            if row.label == "running":
                self._end(rank, "stopped")
        self._draw()

    def _end(self, rank: int, label: str) -> None:
        if rank in self._rows:
            self._rows[rank].label = label

    def _draw(self) -> None:
        if not self._rows:
            return
        from IPython.display import display

        lines = [_cells(row) for _, row in sorted(self._rows.items())]
        note = _NO_PSUTIL if any(map(_lacks_psutil, self._rows.values())) else ""
        content = {
            "text/html": _as_html(lines) + (f"<p>{note}</p>" if note else ""),
            "text/plain": _as_text(lines) + (f"\n{note}" if note else ""),
        }
        if self._display is None:
            self._display = display(content, raw=True, display_id=True)
        else:
            self._display.update(content, raw=True)
        self._drawn = time.monotonic()


def _lacks_psutil(row: _Row) -> bool:
    """The first state of a rank, at 0 s, is sent before anything is measured."""
    return row.state.seconds > 0 and row.state.memory is None


def _cells(row: _Row) -> tuple[str, ...]:
    state = row.state
    return (
        str(state.rank),
        state.host,
        row.label,
        _UNKNOWN if state.cpus is None else f"{state.cpus:.1f}",
        state.gpus or _UNKNOWN,
        _UNKNOWN if state.memory is None else f"{state.memory / 2**20:,.0f} MiB",
        f"{state.seconds:.0f}",
    )


def _as_html(lines: list[tuple[str, ...]]) -> str:
    def row(tag: str, cells: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    rows = [row("th", _HEADINGS), *(row("td", cells) for cells in lines)]
    return f"<table>{''.join(rows)}</table>"


def _as_text(lines: list[tuple[str, ...]]) -> str:
    table = [_HEADINGS, *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in table)
