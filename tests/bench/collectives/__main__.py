# SPDX-License-Identifier: Apache-2.0
"""Collectives of libhorovod against Open MPI (from C++), Gloo (from PyTorch) and themselves.

python3 tests/bench/collectives --bin build/release --json FILE

The libraries take turns within the same processes and on the same memory, so that a busy machine
slows all of them. Prints for each case the median time of one call of both, and the median of the
rounds' ratios beside its goal. `batch_of_N` is N tensors in one call by name, `plan_of_N` the same
with their names resolved once, as MPI's calls have them; MPI takes the tensors one by one.
`calls_N` is one Python call for each of N tensors; `resnet50` is its 161 gradients, by name, which
Gloo gets as full buckets of 25 MB. The peer `raw` is the collective of shared memory without the
C ABI, names and the other ranks' agreement, for one call by name (`run`) and by a plan.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TIMEOUT_S = 900
HERE = Path(__file__).parent
PROGRAMS = {"mpi": "tests/against_mpi", "raw": "tests/against_raw"}

PEERS = ["mpi", "raw", "gloo"]

# The largest ratio of our time to the peer's, and from which size on it counts.
GOALS: dict[tuple[str, str], tuple[float, int]] = {
    ("mpi", "alltoall"): (1.0, 1 << 10),
    ("mpi", "reducescatter"): (1.0, 1 << 10),
    ("mpi", "batch_of_1000"): (0.5, 0),
    ("mpi", "batch_of_10000"): (0.5, 0),
    ("mpi", "plan_of_1000"): (0.5, 0),
    ("mpi", "plan_of_10000"): (0.5, 0),
    ("raw", "run"): (1.3, 0),
    ("gloo", "allreduce"): (0.2, 0),
    ("gloo", "resnet50"): (0.25, 0),
    ("gloo", "calls_1000"): (0.2, 0),
    ("gloo", "calls_10000"): (0.2, 0),
    ("gloo", "alltoall"): (1.0, 1 << 10),
    ("gloo", "reducescatter"): (1.0, 1 << 10),
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("build/release"), help="the build folder")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--peers", nargs="+", default=PEERS, choices=PEERS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--max", type=int, default=16 << 20, help="the largest size in bytes")
    parser.add_argument("--cases", nargs="+", default=[], help="only these; not of Gloo")
    parser.add_argument("--bind-to", default="core", help="mpirun's; none for more ranks than CPUs")
    parser.add_argument("--mpirun", default=shutil.which("mpirun.openmpi") or "mpirun")
    return parser.parse_args()


def command_of(arguments: argparse.Namespace, peer: str, ranks: int) -> list[str]:
    limits = [str(arguments.rounds), str(arguments.max)]
    if peer == "mpi":
        bind_to = arguments.bind_to if ranks <= (os.cpu_count() or 1) else "none"
        mpirun = [arguments.mpirun, "--allow-run-as-root", "--oversubscribe"]
        mpirun += ["--bind-to", bind_to, "-np", str(ranks)]
        return [*mpirun, str(arguments.bin / PROGRAMS[peer]), *limits, *arguments.cases]
    horovodrun = shutil.which("horovodrun", path=Path(sys.executable).parent) or "horovodrun"
    if peer == "raw":
        worker = [str(arguments.bin / PROGRAMS[peer]), str(arguments.rounds), *arguments.cases]
    else:
        worker = [sys.executable, str(HERE / "against_gloo.py"), *limits]
    return [horovodrun, "-np", str(ranks), "--prefix", "none", *worker]


def measure(arguments: argparse.Namespace, peer: str, ranks: int) -> Iterator[dict]:
    result = subprocess.run(
        command_of(arguments, peer, ranks),
        check=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in result.stdout.splitlines():
        case, size, ours, theirs, ratio = line.split()
        goal, smallest = GOALS.get((peer, case), (None, 0))
        yield {
            "peer": peer,
            "ranks": ranks,
            "case": case,
            "bytes": int(size),
            "horovod_us": float(ours),
            "peer_us": float(theirs),
            "ratio": float(ratio),
            "goal": goal if int(size) >= smallest else None,
        }


def missing(arguments: argparse.Namespace) -> str:
    """What is not built, and how to build it; empty if nothing is missing."""
    for peer in arguments.peers:
        program = arguments.bin / PROGRAMS.get(peer, "")
        if not program.exists():
            return (
                f"{program} is missing: build it by `cmake --build {arguments.bin} --target "
                f"{program.name}` (after `cmake --preset release`; that for MPI needs Debian's "
                "libopenmpi-dev)"
            )
    return ""


def main() -> int:
    arguments = parse_arguments()
    if problem := missing(arguments):
        print(f"tests/bench/collectives: {problem}", file=sys.stderr)
        return 2
    rows = []
    print("peer ranks           case      bytes   horovod us      peer us   ratio  goal")
    for peer in arguments.peers:
        for ranks in arguments.ranks:
            for row in measure(arguments, peer, ranks):
                rows.append(row)
                goal = "" if row["goal"] is None else f"{row['goal']:.2f}"
                is_missed = row["goal"] is not None and row["ratio"] > row["goal"]
                print(
                    f"{peer:<5}{ranks:>5} {row['case']:>14} {row['bytes']:>10} "
                    f"{row['horovod_us']:>12.2f} {row['peer_us']:>12.2f} {row['ratio']:>7.3f} "
                    f"{goal:>5}{' NOT MET' if is_missed else ''}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    goals = [row for row in rows if row["goal"] is not None]
    missed = [row for row in goals if row["ratio"] > row["goal"]]
    print(f"goals not met: {len(missed)} of {len(goals)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
