# SPDX-License-Identifier: Apache-2.0
"""Allreduce through libhorovod.so against MPI_Allreduce of Open MPI, in one run.

python3 tests/bench/allreduce --bin build/release --json FILE

Both programs are started by the same mpirun with the same binding and take turns, so that a busy
machine slows both. Prints for each size the median time of both and the median of the rounds'
ratios.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_S = 300
GOAL = 2.0  # times Open MPI, up to GOAL_BYTES
GOAL_BYTES = 1 << 20
PEER = "mpi_allreduce"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("build/release"), help="the build folder")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modes", nargs="+", default=["loop", "touch"], choices=["loop", "touch"])
    parser.add_argument("--min", type=int, default=4)
    parser.add_argument("--max", type=int, default=4 << 20)
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--mpirun", default=shutil.which("mpirun.openmpi") or "mpirun")
    parser.add_argument("--bind-to", default="core", help="core, or none for more ranks than CPUs")
    return parser.parse_args()


def run(arguments: argparse.Namespace, command: list[str], result: Path) -> dict[int, float]:
    """Time in us by bytes."""
    mpirun = [arguments.mpirun, "--allow-run-as-root", "--oversubscribe"]
    mpirun += ["--bind-to", arguments.bind_to, "-np", str(arguments.ranks)]
    subprocess.run(mpirun + command, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    with result.open(newline="") as file:
        return {int(row["bytes"]): float(row["time_us"]) for row in csv.DictReader(file)}


def compare(arguments: argparse.Namespace, mode: str, folder: Path) -> list[dict]:
    ours_csv, theirs_csv = folder / "ours.csv", folder / "theirs.csv"
    sizes = [str(arguments.min), str(arguments.max), str(arguments.factor)]
    ours = [
        str(arguments.bin / "bin" / "hvd-bench"),
        "--mode",
        mode,
        "--csv",
        str(ours_csv),
    ]
    ours += ["-b", sizes[0], "-e", sizes[1], "-f", sizes[2]]
    theirs = [
        str(arguments.bin / "tests" / PEER),
        *sizes,
        mode,
        str(theirs_csv),
    ]
    rounds = []
    for _ in range(arguments.rounds):
        rounds.append((run(arguments, ours, ours_csv), run(arguments, theirs, theirs_csv)))
    rows = []
    for size in rounds[0][0]:
        rows.append(
            {
                "mode": mode,
                "bytes": size,
                "ranks": arguments.ranks,
                "horovod_us": statistics.median(mine[size] for mine, _ in rounds),
                "openmpi_us": statistics.median(mpi[size] for _, mpi in rounds),
                "ratio": statistics.median(mine[size] / mpi[size] for mine, mpi in rounds),
            }
        )
    return rows


def missing(folder: Path) -> str:
    """What is not built, and how to build it; empty if nothing is missing."""
    for program, target in (("bin/hvd-bench", "hvd-bench"), (f"tests/{PEER}", PEER)):
        if not (folder / program).is_file():
            return (
                f"{folder / program} is missing: build it by "
                f"`cmake --build {folder} --target {target}` (after `cmake --preset release`; "
                f"{PEER} needs Debian's libopenmpi-dev)"
            )
    return ""


def main() -> int:
    arguments = parse_arguments()
    if problem := missing(arguments.bin):
        print(f"tests/bench/allreduce: {problem}", file=sys.stderr)
        return 2
    rows = []
    print(f"{'bytes':>10} {'mode':>6} {'horovod us':>12} {'openmpi us':>12} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for mode in arguments.modes:
            for row in compare(arguments, mode, Path(folder)):
                rows.append(row)
                print(
                    f"{row['bytes']:>10} {row['mode']:>6} {row['horovod_us']:>12.2f} "
                    f"{row['openmpi_us']:>12.2f} {row['ratio']:>7.2f}",
                    flush=True,
                )
    missed = [row for row in rows if row["bytes"] <= GOAL_BYTES and row["ratio"] > GOAL]
    if arguments.json:
        arguments.json.write_text(json.dumps({"goal": GOAL, "rows": rows}, indent=2) + "\n")
    print(
        f"above {GOAL} times Open MPI up to {GOAL_BYTES} bytes: {len(missed)} of {len(rows)} lines"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
