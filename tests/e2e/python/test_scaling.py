# SPDX-License-Identifier: Apache-2.0
"""examples/scaling: its figures from known times, and one small measurement."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

SCALING = Path(__file__).resolve().parents[3] / "examples/scaling"
sys.path.insert(0, str(SCALING))

from figures import Job, cost_of_timeline, epoch_seconds, rows_of, table_of  # noqa: E402


def test_an_epoch_is_the_time_between_the_first_lines_of_two() -> None:
    output = (
        "2026-01-31T09:15:01.500000Z[1]<stdout>:Epoch 1/3\n"
        "2026-01-31T09:15:01.000000Z[0]<stdout>:Epoch 1/3\n"
        "2026-01-31T09:15:01.700000Z[0]<stdout>:20/20 - 1s - accuracy: 0.5 - loss: 2.0\n"
        "2026-01-31T09:15:03.250000Z[0]<stdout>:Epoch 2/3\n"
        "2026-01-31T09:15:03.500000Z[1]<stdout>:Epoch 2/3\n"
        "2026-01-31T09:15:04.000000Z[0]<stdout>:Epoch 3/3\n"
    )

    assert epoch_seconds(output) == [2.25, 0.75]


def test_rows_have_speed_up_and_efficiency() -> None:
    jobs = {
        1: [Job(10.0, [2.0]), Job(10.0, [2.0])],
        2: [Job(8.0, [1.25]), Job(8.0, [1.25])],
        4: [Job(4.0, [1.0]), Job(8.0, [1.0])],
    }

    rows = rows_of("mnist", False, jobs, images=1000, epochs=4, cpus=2)

    run = {row.ranks: row for row in rows if row.measured == "run"}
    assert [run[ranks].images_per_second for ranks in (1, 2, 4)] == [400, 500, 750]
    assert (run[2].speed_up, run[2].efficiency, run[2].deviation) == (1.25, 0.625, 0)
    assert run[4].is_oversubscribed and run[4].efficiency is None and run[4].speed_up == 1.875
    assert run[4].deviation == pytest.approx(353.55, abs=0.01)
    epoch = {row.ranks: row for row in rows if row.measured == "epoch"}
    assert (epoch[2].images_per_second, epoch[2].efficiency) == (800, 0.8)
    assert "| mnist | epoch | 2 | 800 | 0 | 1.60 | 80 % |" in table_of(rows)
    assert "| mnist | run | 4 (oversubscribed) | 750 | 354 | 1.88 |  |" in table_of(rows)


def test_the_timelines_cost_is_shown() -> None:
    rows = rows_of("cnn", False, {1: [Job(10.0, [1.0])]}, 1000, 1, 2)
    rows += rows_of("cnn", True, {1: [Job(12.5, [1.0])]}, 1000, 1, 2)

    assert cost_of_timeline(rows) == [
        "timeline, cnn, run, 1 ranks: -20.0 %",
        "timeline, cnn, epoch, 1 ranks: +0.0 %",
    ]


def test_a_small_measurement(horovodrun: Path, tmp_path: Path) -> None:
    ranks = 2 * len(os.sched_getaffinity(0))
    options = ["--ranks", f"1,{ranks}", "--runs", "1", "--networks", "cnn", "--images", "800"]
    options += ["--epochs", "3", "--batch-size", "20", "--timeline", "--output", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, str(SCALING / "run.py"), "--horovodrun", str(horovodrun), *options],
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert result.returncode == 0, result
    with (tmp_path / "scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8 and all(float(row["images_per_second"]) > 0 for row in rows), rows
    marked = {(row["ranks"], row["is_oversubscribed"], row["efficiency"] == "") for row in rows}
    assert marked == {("1", "False", False), (str(ranks), "True", True)}
    assert f"| {ranks} (oversubscribed) |" in result.stdout
    assert result.stdout.count("timeline, cnn, ") == 4, result
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert "oversubscribed" in (tmp_path / "scaling.svg").read_text(), "as text for readers"


def test_wrong_usage_is_refused() -> None:
    for options, message in (
        (["--epochs", "2"], "use 3 or more"),
        (["--ranks", "1,x"], "use numbers"),
        (["--networks", "resnet"], "resnet is none of"),
        (["--images", "100"], "fewer than a batch"),
    ):
        command = [sys.executable, str(SCALING / "run.py"), *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.returncode == 2 and message in result.stderr, result
