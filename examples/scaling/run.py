# SPDX-License-Identifier: Apache-2.0
"""Measures images per second against the number of ranks, and prints and plots them:

python examples/scaling/run.py --output scaling

Every job trains on the same images, shared by its ranks; a rank computes by one thread. The whole
run is timed around horovodrun; an epoch is the time between the time-stamped lines `Epoch y/z` of
two epochs, the first not counted because it makes the graph. Ranks beyond the CPUs are marked as
oversubscribed and have no efficiency.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import Job, Row, cost_of_timeline, epoch_seconds, rows_of, table_of, write_csv

TRAIN = Path(__file__).with_name("train.py")
NETWORKS = ("mnist", "cnn")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--ranks", default="1,2,4,8,16", help="numbers of ranks")
    parser.add_argument("--runs", type=int, default=3, help="jobs of each kind")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--images", type=int, default=12000, help="of an epoch, of all ranks")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=50, help="of each rank")
    parser.add_argument("--data-dir", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--timeline", action="store_true", help="also measure with the timeline")
    parser.add_argument("--output", type=Path, default="scaling", help="a folder for the results")
    parser.add_argument("--horovodrun", default="horovodrun", help="the program")
    args = parser.parse_args()
    try:
        args.ranks = sorted({int(one) for one in args.ranks.split(",")})
    except ValueError:
        parser.error(f"--ranks {args.ranks}: use numbers, such as 1,2,4")
    args.networks = args.networks.split(",")
    unknown = set(args.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"--networks: {', '.join(sorted(unknown))} is none of {', '.join(NETWORKS)}")
    if min(args.ranks) < 1 or args.runs < 1:
        parser.error("--ranks and --runs must be 1 or more")
    if args.epochs < 3:
        parser.error(
            f"--epochs {args.epochs}: the first and the last are not counted; use 3 or more"
        )
    if args.images < max(args.ranks) * args.batch_size:
        parser.error(
            f"--images {args.images}: fewer than a batch for each of {args.ranks[-1]} ranks"
        )
    return args


def run_job(args: argparse.Namespace, network: str, ranks: int, timeline: bool) -> Job:
    """Runs a job; ends the program where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--timeline-filename", f"{folder}/timeline.json"] if timeline else []
        command = [args.horovodrun, "-np", str(ranks), "-prefix-timestamp", *flags]
        command += [sys.executable, str(TRAIN), network, "--images", str(args.images)]
        command += ["--epochs", str(args.epochs), "--batch-size", str(args.batch_size)]
        command += ["--data-dir", args.data_dir]
        begin = time.monotonic()
        try:
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
        except FileNotFoundError:
            sys.exit(f"{args.horovodrun} is not in PATH: give it with --horovodrun")
        seconds = time.monotonic() - begin
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    epochs = epoch_seconds(ended.stdout)
    if len(epochs) != args.epochs - 1:
        sys.exit(f"{' '.join(command)}\nhas no line for each epoch:\n{ended.stdout}")
    return Job(seconds, epochs[1:])


def measure(args: argparse.Namespace, cpus: int) -> list[Row]:
    """Runs all jobs: each kind once, then each kind again, so that a machine that changes changes
    for all of them."""
    kinds = [
        (network, timeline, ranks)
        for network in args.networks
        for timeline in ((False, True) if args.timeline else (False,))
        for ranks in args.ranks
    ]
    jobs: dict[tuple[str, bool], dict[int, list[Job]]] = {}
    for number in range(args.runs):
        for network, timeline, ranks in kinds:
            job = run_job(args, network, ranks, timeline)
            jobs.setdefault((network, timeline), {}).setdefault(ranks, []).append(job)
            words = "with timeline, " if timeline else ""
            print(
                f"run {number + 1}: {network}, {words}{ranks} ranks: {job.seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    rows = []
    for (network, timeline), some in jobs.items():
        rows += rows_of(network, timeline, some, args.images, args.epochs, cpus)
    return rows


def main() -> None:
    args = parse_arguments()
    # An exception ends the job that runs, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        from plot import draw
    except ModuleNotFoundError as error:
        sys.exit(f"{error.name} is missing: pip install matplotlib")
    cpus = len(os.sched_getaffinity(0))
    args.output.mkdir(parents=True, exist_ok=True)
    rows = measure(args, cpus)
    write_csv(rows, args.output / "scaling.csv")
    draw(rows, cpus, [args.output / "scaling.png", args.output / "scaling.svg"])
    print(f"{cpus} CPUs, {args.images} images, {args.runs} runs of {args.epochs} epochs\n")
    print(table_of(rows))
    for line in cost_of_timeline(rows):
        print(line)


if __name__ == "__main__":
    main()
