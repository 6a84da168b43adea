# SPDX-License-Identifier: Apache-2.0
"""The figures of a benchmark: from the output of jobs to rows of the table."""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

_EPOCH = re.compile(r"(\S+Z)\[\d+\]<stdout>:.*?Epoch (\d+)/(\d+)\s*")


@dataclass(frozen=True)
class Job:
    """One job that has ended: its time from start to end, and the time of each epoch."""

    seconds: float
    epoch_seconds: list[float]


@dataclass(frozen=True)
class Row:
    """A line of the table. Efficiency is None where ranks share CPUs."""

    network: str
    measured: str  # "run": the whole job; "epoch": an epoch
    timeline: bool
    ranks: int
    is_oversubscribed: bool
    images_per_second: float
    deviation: float
    speed_up: float | None
    efficiency: float | None


def epoch_seconds(output: str) -> list[float]:
    """The times from the first line `Epoch y/z` of any rank to the first of the next epoch; the
    last epoch has no next and is not among them. The lines have the time in front."""
    begins: dict[int, datetime] = {}
    for line in output.splitlines():
        match = _EPOCH.fullmatch(line)
        if match:
            time = datetime.fromisoformat(match[1].replace("Z", "+00:00"))
            begins[int(match[2])] = min(time, begins.get(int(match[2]), time))
    return [
        (begins[epoch + 1] - begin).total_seconds()
        for epoch, begin in sorted(begins.items())
        if epoch + 1 in begins
    ]


def rates_of(jobs: Iterable[Job], images: int, epochs: int) -> dict[str, list[float]]:
    """Images per second, of each job and of each of their epochs."""
    known = list(jobs)
    return {
        "run": [images * epochs / job.seconds for job in known],
        "epoch": [images / seconds for job in known for seconds in job.epoch_seconds],
    }


def rows_of(
    network: str,
    timeline: bool,
    jobs: dict[int, list[Job]],
    images: int,
    epochs: int,
    cpus: int,
) -> list[Row]:
    """The rows of the jobs of a network by their number of ranks."""
    rates = {ranks: rates_of(some, images, epochs) for ranks, some in jobs.items()}
    rows = []
    for measured in ("run", "epoch"):
        alone = statistics.fmean(rates[1][measured]) if 1 in rates else None
        for ranks, both in sorted(rates.items()):
            mean = statistics.fmean(both[measured])
            is_oversubscribed = ranks > cpus
            speed_up = None if alone is None else mean / alone
            efficiency = None if speed_up is None or is_oversubscribed else speed_up / ranks
            deviation = statistics.stdev(both[measured]) if len(both[measured]) > 1 else 0.0
            values = (is_oversubscribed, mean, deviation, speed_up, efficiency)
            rows.append(Row(network, measured, timeline, ranks, *values))
    return rows


def cost_of_timeline(rows: Sequence[Row]) -> list[str]:
    """How much slower each network was with the timeline."""
    mean = {(r.network, r.measured, r.ranks, r.timeline): r.images_per_second for r in rows}
    lines = []
    for (network, measured, ranks, timeline), value in mean.items():
        without = mean.get((network, measured, ranks, False))
        if timeline and without is not None:
            change = 100 * (value / without - 1)
            lines.append(f"timeline, {network}, {measured}, {ranks} ranks: {change:+.1f} %")
    return lines


def table_of(rows: Iterable[Row]) -> str:
    """As Markdown."""
    lines = [
        "| Network | Time of | Ranks | Images/s | Deviation | Speed-up | Efficiency |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        measured = f"{row.measured}, timeline" if row.timeline else row.measured
        ranks = f"{row.ranks} (oversubscribed)" if row.is_oversubscribed else str(row.ranks)
        speed_up = "" if row.speed_up is None else f"{row.speed_up:.2f}"
        efficiency = "" if row.efficiency is None else f"{100 * row.efficiency:.0f} %"
        values = f"{row.images_per_second:.0f} | {row.deviation:.0f} | {speed_up} | {efficiency}"
        lines.append(f"| {row.network} | {measured} | {ranks} | {values} |")
    return "\n".join(lines)


def write_csv(rows: Iterable[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(map(asdict, rows))
