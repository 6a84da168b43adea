# SPDX-License-Identifier: Apache-2.0
"""Images per second of PyTorch training: plain, with horovod.torch, and with DDP over gloo.

python3 tests/bench/train --json FILE

All are started by horovodrun, so that they get the same CPUs and threads, and take turns, so that a
busy machine slows all of them. Prints for each network horovod at 1 rank divided by plain PyTorch,
and horovod at 2 ranks divided by DDP at 2 ranks: the median of the ratios of all rounds.
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

# Name, ranks, what combines the gradients.
CONTESTANTS = (
    ("plain 1", 1, "plain"),
    ("horovod 1", 1, "horovod"),
    ("ddp 2", 2, "ddp"),
    ("horovod 2", 2, "horovod"),
)
RATIOS = (
    ("horovod 1 / plain 1", "horovod 1", "plain 1", 0.99),
    ("horovod 2 / ddp 2", "horovod 2", "ddp 2", 0.95),
)


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


def measure(args: argparse.Namespace, model: str, ranks: int, engine: str) -> tuple[float, float]:
    """Images per second of all ranks, and microseconds of CPU time for an image of rank 0."""
    command = [args.horovodrun, "-np", str(ranks), sys.executable, str(WORKER), engine, model]
    command += [str(args.batch_size), str(args.seconds)]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    rate = re.search(r"images_per_second ([\d.]+)", result.stdout)
    cpu = re.search(r"cpu_us_per_image ([\d.]+)", result.stdout)
    if result.returncode != 0 or rate is None or cpu is None:
        sys.exit(f"{' '.join(command)}\n{result.stdout}\n{result.stderr}")
    return float(rate[1]), float(cpu[1])


def main() -> None:
    args = parse_arguments()
    if args.horovodrun is None:
        sys.exit("horovodrun is not on PATH: install it, or use --horovodrun")
    report: dict[str, object] = {"batch_size": args.batch_size, "rounds": args.rounds}
    for model in args.models:
        rates: dict[str, list[float]] = {name: [] for name, _, _ in CONTESTANTS}
        cpu_us: dict[str, list[float]] = {name: [] for name, _, _ in CONTESTANTS}
        for _ in range(args.rounds):
            for name, ranks, engine in CONTESTANTS:
                rate, cpu = measure(args, model, ranks, engine)
                rates[name].append(rate)
                cpu_us[name].append(cpu)
        print(f"{model}: images/s, CPU us for an image of rank 0; median of {args.rounds}")
        for name, _, _ in CONTESTANTS:
            medians = statistics.median(rates[name]), statistics.median(cpu_us[name])
            print(f"  {name:10} {medians[0]:10.1f} {medians[1]:10.1f}")
        ratios = {}
        for label, ours, theirs, goal in RATIOS:
            pairs = zip(rates[ours], rates[theirs], strict=True)
            ratios[label] = statistics.median(one / other for one, other in pairs)
            print(f"  {label:20} {ratios[label]:.3f}  (goal: at least {goal})", flush=True)
        report[model] = {
            "images_per_second": rates,
            "cpu_us_per_image": cpu_us,
            "ratios": ratios,
        }
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
