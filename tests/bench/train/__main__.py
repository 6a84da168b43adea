# SPDX-License-Identifier: Apache-2.0
"""Images per second of PyTorch training: plain, with horovod.torch, and with DDP over gloo.

python3 tests/bench/train --json FILE

The two that are compared take turns within the same processes, which horovodrun starts. Prints for
each network horovod at 1 rank divided by plain PyTorch, horovod at 2 ranks divided by DDP, and
horovod at 2 ranks with a timeline divided by the same without: the median of the ratios of all
rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("worker.py")
TIMEOUT_S = 600

# Steps of a few hundred milliseconds at most, so that the turns are many.
BATCH_SIZES = {"cnn": 128, "wrn": 8}

GOALS = {
    "plain": 0.99,  # of plain PyTorch's images per second, at 1 rank
    "ddp": 1.03,  # of DDP's, at 2 ranks
    "timeline": 0.99,  # of what there is without a timeline, at 2 ranks
}


def find_horovodrun() -> str | None:
    """In HVD_BIN, else beside this Python, else on PATH."""
    folder = Path(os.environ.get("HVD_BIN", Path(sys.executable).parent))
    return shutil.which("horovodrun", path=folder) or shutil.which("horovodrun")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--models", nargs="+", default=list(BATCH_SIZES), choices=list(BATCH_SIZES))
    parser.add_argument("--batch-size", type=int, help=f"of each rank (default: {BATCH_SIZES})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement, about")
    parser.add_argument(
        "--horovodrun",
        default=find_horovodrun(),
    )
    return parser.parse_args()


def measure(args: argparse.Namespace, model: str, comparison: str) -> dict[str, float]:
    """What a job printed: names and numbers."""
    ranks = 1 if comparison == "plain" else 2
    command = [args.horovodrun, "-np", str(ranks), sys.executable, str(WORKER), comparison, model]
    command += [str(args.batch_size or BATCH_SIZES[model]), str(args.seconds)]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    figures = re.findall(r"([a-z_]+) ([\d.]+)$", result.stdout, re.MULTILINE)
    if result.returncode != 0 or not figures:
        sys.exit(f"{' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return {name: float(value) for name, value in figures}


def compare(args: argparse.Namespace, model: str) -> dict[str, object]:
    rounds = [
        {comparison: measure(args, model, comparison) for comparison in GOALS}
        for _ in range(args.rounds)
    ]

    def median(comparison: str, figure: str) -> float:
        return statistics.median(figures[comparison][figure] for figures in rounds)

    print(f"{model}: images/s, CPU us for an image of rank 0; median of {args.rounds}")
    for ranks, other in ((1, "plain"), (2, "ddp")):
        for engine in (other, "horovod"):
            rate = median(other, f"{engine}_images_per_second")
            cpu_us = median(other, f"{engine}_cpu_us_per_image")
            print(f"  {engine:8} {ranks} {rate:10.1f} {cpu_us:10.1f}")
    written, cpu_ratio = (
        median("timeline", name) for name in ("timeline_bytes_per_step", "cpu_ratio")
    )
    print(f"  timeline: {written:.0f} bytes for a step; CPU time without / with {cpu_ratio:.3f}")
    ratios = {comparison: median(comparison, "ratio") for comparison in GOALS}
    labels = ("horovod 1 / plain 1", "horovod 2 / ddp 2", "timeline 2 / without")
    for label, (comparison, goal) in zip(labels, GOALS.items(), strict=True):
        print(f"  {label:20} {ratios[comparison]:.3f}  (goal: at least {goal})", flush=True)
    return {"rounds": rounds, "ratios": ratios}


def main() -> None:
    args = parse_arguments()
    if args.horovodrun is None:
        sys.exit("horovodrun is not on PATH: install it, or use --horovodrun")
    report: dict[str, object] = {"rounds": args.rounds}
    for model in args.models:
        report[model] = compare(args, model)
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
