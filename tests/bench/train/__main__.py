# SPDX-License-Identifier: Apache-2.0
"""Images per second of PyTorch training: plain, with horovod.torch, and with DDP over gloo.

python3 tests/bench/train --json FILE

All are started by horovodrun, so that they get the same CPUs and threads. Plain PyTorch and horovod
at 1 rank take turns within one process; horovod and DDP at 2 ranks take turns job by job. Prints
for each network horovod at 1 rank divided by plain PyTorch, horovod at 2 ranks divided by DDP at 2
ranks, and horovod at 2 ranks with a timeline divided by the same without, which take turns within
one process: the median of the ratios of all rounds.
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

GOAL_PAIRED = 0.99  # of plain PyTorch's images per second, at 1 rank
GOAL_DDP = 0.95  # of DDP's, at 2 ranks
GOAL_TIMELINE = 0.99  # of what there is without a timeline, at 2 ranks


def find_horovodrun() -> str | None:
    """In HVD_BIN, else beside this Python, else on PATH."""
    folder = Path(os.environ.get("HVD_BIN", Path(sys.executable).parent))
    return shutil.which("horovodrun", path=folder) or shutil.which("horovodrun")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--models", nargs="+", default=["cnn", "wrn"], choices=["cnn", "wrn"])
    parser.add_argument("--batch-size", type=int, default=128, help="of each rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement, about")
    parser.add_argument(
        "--horovodrun",
        default=find_horovodrun(),
    )
    return parser.parse_args()


def measure(args: argparse.Namespace, model: str, ranks: int, engine: str) -> dict[str, float]:
    """What a job printed: names and numbers."""
    command = [args.horovodrun, "-np", str(ranks), sys.executable, str(WORKER), engine, model]
    command += [str(args.batch_size), str(args.seconds)]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    figures = re.findall(r"([a-z_]+) ([\d.]+)$", result.stdout, re.MULTILINE)
    if result.returncode != 0 or not figures:
        sys.exit(f"{' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return {name: float(value) for name, value in figures}


def compare(args: argparse.Namespace, model: str) -> dict[str, object]:
    jobs = {
        "paired 1": (1, "paired"),
        "ddp 2": (2, "ddp"),
        "horovod 2": (2, "horovod"),
        "timeline 2": (2, "timeline"),
    }
    rounds = [
        {name: measure(args, model, *job) for name, job in jobs.items()} for _ in range(args.rounds)
    ]

    def median(job: str, figure: str) -> float:
        return statistics.median(figures[job][figure] for figures in rounds)

    print(f"{model}: images/s, CPU us for an image of rank 0; median of {args.rounds}")
    print(f"  plain 1    {median('paired 1', 'plain_images_per_second'):10.1f}")
    print(f"  horovod 1  {median('paired 1', 'horovod_images_per_second'):10.1f}")
    for job in ("ddp 2", "horovod 2"):
        rate, cpu_us = median(job, "images_per_second"), median(job, "cpu_us_per_image")
        print(f"  {job:10} {rate:10.1f} {cpu_us:10.1f}")
    written, cpu_ratio = (
        median("timeline 2", name) for name in ("timeline_bytes_per_step", "cpu_ratio")
    )
    print(f"  timeline: {written:.0f} bytes for a step; CPU time without / with {cpu_ratio:.3f}")
    ratios = {
        "horovod 1 / plain 1": median("paired 1", "ratio"),
        "horovod 2 / ddp 2": statistics.median(
            figures["horovod 2"]["images_per_second"] / figures["ddp 2"]["images_per_second"]
            for figures in rounds
        ),
        "timeline 2 / without": median("timeline 2", "ratio"),
    }
    goals = (GOAL_PAIRED, GOAL_DDP, GOAL_TIMELINE)
    for (label, ratio), goal in zip(ratios.items(), goals, strict=True):
        print(f"  {label:20} {ratio:.3f}  (goal: at least {goal})", flush=True)
    return {"rounds": rounds, "ratios": ratios}


def main() -> None:
    args = parse_arguments()
    if args.horovodrun is None:
        sys.exit("horovodrun is not on PATH: install it, or use --horovodrun")
    report: dict[str, object] = {"batch_size": args.batch_size, "rounds": args.rounds}
    for model in args.models:
        report[model] = compare(args, model)
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
