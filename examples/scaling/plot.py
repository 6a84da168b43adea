# SPDX-License-Identifier: Apache-2.0
"""The plot of a benchmark: images per second against ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from figures import Row
from matplotlib.figure import Figure

matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text

_TITLES = {"run": "whole run", "epoch": "epochs"}


def draw(rows: Sequence[Row], cpus: int, paths: Sequence[Path]) -> None:
    """Writes it in the format that the ending of each path names."""
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, measured in zip(axes, _TITLES, strict=True):
        _draw_part(axis, [row for row in rows if row.measured == measured], cpus)
        axis.set_title(_TITLES[measured])
    for path in paths:
        figure.savefig(path, dpi=150)


def _draw_part(axis: Any, rows: Sequence[Row], cpus: int) -> None:
    for network, timeline in dict.fromkeys((row.network, row.timeline) for row in rows):
        chosen = [row for row in rows if (row.network, row.timeline) == (network, timeline)]
        axis.errorbar(
            [row.ranks for row in chosen],
            [row.images_per_second for row in chosen],
            [row.deviation for row in chosen],
            label=f"{network}, with timeline" if timeline else network,
            marker="o",
            linestyle="--" if timeline else "-",
            capsize=3,
        )
    ticks = sorted({row.ranks for row in rows})
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, map(str, ticks))
    axis.set_ylim(bottom=0)
    if ticks and ticks[-1] > cpus:
        axis.axvspan(cpus * 2**0.5, ticks[-1] * 1.15, color="0.9", label="oversubscribed")
    axis.set_xlabel("ranks")
    axis.set_ylabel("images per second")
    axis.legend()
