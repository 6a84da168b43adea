# SPDX-License-Identifier: Apache-2.0
"""examples/keras_fashion_mnist.py on the real data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import Job, RunRanks

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

NUMBER = r"(\d+\.\d+)"


@pytest.fixture(scope="module")
def example(root: Path) -> Path:
    return root / "examples/keras_fashion_mnist.py"


def number(text: str, label: str) -> float:
    found = re.search(rf"^(?:\[0\]<stdout>:)?{re.escape(label)} {NUMBER}$", text, re.MULTILINE)
    assert found, f"no '{label}' in\n{text}"
    return float(found[1])


def training_accuracy(text: str) -> float:
    found = re.search(rf" - accuracy: {NUMBER} - ", text)
    assert found, text
    return float(found[1])


def test_four_ranks_reach_the_accuracy_of_one_at_the_same_total_batch(
    run_ranks: RunRanks, example: Path
) -> None:
    batch, rate = 32, 0.025
    options = ["--epochs", "1", "--batches-per-epoch", "120", "--warmup-epochs", "0"]
    options += ["--width", "1", "--val-batch-size", "1000"]

    four = run_ranks(
        4, example, *options, "--batch-size", str(batch), "--base-lr", str(rate), timeout=900
    )
    options += ["--batch-size", str(4 * batch), "--base-lr", str(4 * rate)]
    one = subprocess.run(
        [sys.executable, example, *options],
        capture_output=True,
        text=True,
        timeout=900,
    )

    assert four.exit_code == 0, four
    assert one.returncode == 0, one
    # Over a whole epoch it varies by less than a hundredth from run to run; after one it is still
    # low, and a test of the last step's weights varies by ten.
    assert training_accuracy(four.stdout) > training_accuracy(one.stdout) - 0.03, (four, one)
    assert number(four.stdout, "Test accuracy:") > 0.3, four
    for label in ("Images/sec:", "Cumulative training time after epoch 1:", "Test loss:"):
        number(four.stdout, label)
    assert all(four.lines(rank) == [] for rank in (1, 2, 3)), four


def run_briefly(run_ranks: RunRanks, example: Path, *options: str) -> Job:
    job = run_ranks(
        2, example, "--batches-per-epoch", "2", "--batch-size", "16", *options, timeout=300
    )
    assert job.exit_code == 0, job
    return job


def test_all_ranks_stop_early_together(run_ranks: RunRanks, example: Path, tmp_path: Path) -> None:
    options = ["--epochs", "5", "--target-accuracy", "0", "--patience", "2"]

    job = run_briefly(run_ranks, example, *options, "--log-dir", str(tmp_path))

    assert "Early stopping after epoch 2" in job.lines(0), job
    assert len([line for line in job.lines(0) if line.startswith("Images/sec: ")]) == 2, job
    assert (tmp_path / "checkpoint.keras").stat().st_size > 0
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 3


def test_it_runs_without_a_launcher_and_without_gpus(example: Path) -> None:
    options = ["--epochs", "1", "--batches-per-epoch", "2", "--batch-size", "16"]

    ended = subprocess.run(
        [sys.executable, example, *options],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert ended.returncode == 0, ended.stderr
    for label in ("Images/sec:", "Test loss:", "Test accuracy:"):
        number(ended.stdout, label)
