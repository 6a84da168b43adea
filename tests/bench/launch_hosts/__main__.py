# SPDX-License-Identifier: Apache-2.0
"""Compares how long launchers take over 1 to 64 simulated hosts, all in one run; root only.

    python tests/bench/launch_hosts [--json FILE] [--bin FOLDER] [--hosts 1,4,16,64] [--rounds N]

The least that a launcher over SSH can take is measured beside them: connections to all hosts at
once, up to the proof of the key, with the methods that horovodrun chooses ("handshakes") and with
those that libssh2 does ("libssh2's"); and what it takes to run the command too, which
no launcher can do without: "sessions". Launchers: horovodrun; MPICH's hydra; Open MPI's
mpirun; pdsh; an ssh process for each host, all at once. They take turns within a round, and a ratio
is the median of the rounds' ratios. All hosts share this machine's CPUs: on a real cluster
everybody is faster. A rank under mpirun sleeps, or mpirun may hang; the sleep is subtracted.

`true` is one rank on each host; `hello` is 4 ranks on each host that print a line. Goals are
printed beside the figures; times alone never make this fail.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.hosts import Host, Lab, why_not  # noqa: E402

KEX = "ecdh-sha2-nistp256"  # horovodrun's first choice
SLEEP = 0.2  # seconds, of ranks under mpirun
TIMEOUT = 120  # seconds
CASES = {"true": (1, ["true"]), "hello": (4, ["echo", "hello"])}
Command = Callable[[list[Host], int, list[str]], list[str]]


@dataclass
class Contender:
    name: str
    command: Command
    subtract: float = 0.0
    seconds: dict[tuple[str, int], list[float]] = field(default_factory=dict)


def mpirun(hosts: list[Host], slots: int, command: list[str]) -> list[str]:
    names = ",".join(f"{host.name}:{slots}" for host in hosts)
    sleepy = ["sh", "-c", f"{' '.join(command)}; exec sleep {SLEEP}"]
    flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    return ["mpirun.openmpi", *flags, "-np", str(slots * len(hosts)), "-H", names, *sleepy]


def hydra(hosts: list[Host], slots: int, command: list[str]) -> list[str]:
    names = ",".join(f"{host.name}:{slots}" for host in hosts)
    return ["mpiexec.hydra", "-np", str(slots * len(hosts)), "-hosts", names, *command]


def repeated(slots: int, command: list[str]) -> str:
    """`slots` processes of the command, for a shell."""
    return "; ".join([f"{' '.join(command)} &"] * slots).replace("&;", "&") + " wait"


def pdsh(hosts: list[Host], slots: int, command: list[str]) -> list[str]:
    names = ",".join(host.name for host in hosts)
    return ["pdsh", "-R", "ssh", "-f", "512", "-w", names, repeated(slots, command)]


def ssh_loop(hosts: list[Host], slots: int, command: list[str]) -> list[str]:
    script = 'command=$1; shift; for host; do ssh -o BatchMode=yes "$host" "$command" & done; wait'
    names = [host.name for host in hosts]
    return ["sh", "-c", script, "sh", repeated(slots, command), *names]


def contenders(binaries: Path) -> tuple[list[Contender], list[str]]:
    handshakes = str(binaries.parent / "tests/ssh_handshakes")
    horovodrun = str(binaries / "horovodrun")

    def shake(hosts: list[Host], _slots: int, _command: list[str]) -> list[str]:
        return [handshakes, "/root/.ssh/id_ed25519", *(host.address for host in hosts)]

    def same(hosts: list[Host], slots: int, command: list[str]) -> list[str]:
        return [handshakes, "--kex", KEX, *shake(hosts, slots, command)[1:]]

    def session(hosts: list[Host], slots: int, command: list[str]) -> list[str]:
        return [handshakes, "--run", repeated(slots, command), *same(hosts, slots, command)[1:]]

    def run(hosts: list[Host], slots: int, command: list[str]) -> list[str]:
        names = ",".join(f"{host.name}:{slots}" for host in hosts)
        return [horovodrun, "-np", str(slots * len(hosts)), "-H", names, *command]

    every = [
        Contender("handshakes", same),
        Contender("libssh2's", shake),
        Contender("sessions", session),
        Contender("horovodrun", run),
        Contender("hydra", hydra),
        Contender("mpirun", mpirun, SLEEP),
        Contender("pdsh", pdsh),
        Contender("ssh loop", ssh_loop),
    ]
    programs = {one.name: one.command([], 1, ["true"])[0] for one in every}
    found = [one for one in every if shutil.which(programs[one.name])]
    return found, [one.name for one in every if one not in found]


def time_of(head: Host, command: list[str]) -> float:
    began = time.perf_counter()
    result = subprocess.run(
        [*head.prefix(), *command],
        env=head.environment(PDSH_SSH_ARGS_APPEND="-o BatchMode=yes"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
    )
    seconds = time.perf_counter() - began
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip()
        raise SystemExit(f"{' '.join(command)} ended with {result.returncode}: {said}")
    return seconds


def measure(runners: list[Contender], lab: Lab, sizes: list[int], rounds: int) -> None:
    head, *others = lab
    for case, (slots, words) in CASES.items():
        for size in sizes:
            for turn in range(rounds + 1):
                for runner in runners:
                    command = runner.command(others[:size], slots, words)
                    seconds = time_of(head, command) - runner.subtract
                    if turn > 0:  # the first fills caches, and brings the agent
                        runner.seconds.setdefault((case, size), []).append(seconds)
            row = "  ".join(
                f"{runner.name} {statistics.median(runner.seconds[case, size]):.3f}"
                for runner in runners
            )
            print(f"{case} x {slots}, {size} hosts: s: {row}", flush=True)


def median_of(one: Contender, other: Contender, key: tuple[str, int], is_ratio: bool) -> float:
    pairs = list(zip(one.seconds[key], other.seconds[key], strict=True))
    return statistics.median(a / b if is_ratio else a - b for a, b in pairs)


def goals(runners: list[Contender], sizes: list[int]) -> list[dict[str, object]]:
    by_name = {runner.name: runner for runner in runners}
    mine = by_name["horovodrun"]
    found = []
    if "handshakes" in by_name and 1 in sizes:
        extra = median_of(mine, by_name["handshakes"], ("true", 1), False)
        found.append({"figure": "ms over a handshake, 1 host", "value": 1e3 * extra, "at_most": 20})
    if "handshakes" in by_name and 64 in sizes:
        value = median_of(mine, by_name["handshakes"], ("true", 64), True)
        found.append({"figure": "time / handshakes, 64 hosts", "value": value, "at_most": 1.2})
        value = median_of(mine, by_name["libssh2's"], ("true", 64), True)
        found.append({"figure": "time / libssh2's, 64 hosts", "value": value, "at_most": 1.2})
    if "sessions" in by_name and 64 in sizes:
        value = median_of(mine, by_name["sessions"], ("true", 64), True)
        found.append({"figure": "time / SSH sessions, 64 hosts", "value": value, "at_most": 1.2})
    for runner in runners:
        if runner.name not in ("handshakes", "libssh2's", "sessions", "horovodrun"):
            for key in runner.seconds:
                figure = f"time / {runner.name}, {key[0]}, {key[1]} hosts"
                value = median_of(mine, runner, key, True)
                found.append({"figure": figure, "value": value, "at_most": 1.0})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--bin", type=Path, default=ROOT / "build/release/bin", help="where horovodrun is"
    )
    parser.add_argument("--hosts", default="1,4,16,64", help="numbers of hosts")
    parser.add_argument("--rounds", type=int, default=10, help="how often each is measured")
    options = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    sizes = [int(word) for word in options.hosts.split(",")]
    os.environ["HVD_BIN"] = str(options.bin.resolve())

    runners, missing = contenders(options.bin.resolve())
    if missing:
        print(f"not there: {', '.join(missing)}")
    with Lab(max(sizes) + 1) as lab:
        measure(runners, lab, sizes, options.rounds)

    reached = goals(runners, sizes)
    for goal in reached:
        goal["met"] = goal["value"] <= goal["at_most"]
        verdict = "met" if goal["met"] else "NOT MET"
        print(f"{goal['figure']:36} {goal['value']:8.2f}  goal <= {goal['at_most']:<4}  {verdict}")
    if options.json:
        report = {
            "version": 1,
            "cpus": os.cpu_count(),
            "load": os.getloadavg(),
            "missing": missing,
            "seconds": {
                runner.name: {
                    f"{case} {size}": times for (case, size), times in runner.seconds.items()
                }
                for runner in runners
            },
            "goals": reached,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
