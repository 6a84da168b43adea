#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every #include goes forward. TABLE is the architecture; CMake's links repeat it, and
for the launcher launcher/README.md.

usage: check_layers.py [ROOT]      exit code 0 clean, 1 violations (file:line: reason), 2 bad table
"""

import graphlib
import pathlib
import re
import sys

# The includes that the files of a folder may have besides their own folder. Every folder with
# sources, at every depth, has a row. Tests may include anything and are not in the table.
BASE = {"collectives/base"}
SEAMS = BASE | {"collectives"}
CONTRACT = BASE | {"collectives", "collectives/launch_contract"}
STORE = CONTRACT | {"collectives/rendezvous"}
SHM = STORE | {"collectives/transport/shm"}
TCP = STORE | {"collectives/transport/tcp"}
BACKEND = SEAMS | {
    "collectives/algorithms",
    "collectives/reduce",
    "collectives/transport",
}
LAUNCH = BASE | {"collectives/launch_contract"}
TCP_BASE = BASE | {"collectives/transport/tcp"}


def launcher(folders: str) -> set[str]:
    return {f"launcher/{folder}" for folder in folders.split()}


TABLE: dict[str, set[str]] = {
    "collectives/base": set(),
    "collectives": BASE,
    "collectives/launch_contract": SEAMS,
    "collectives/rendezvous": CONTRACT,
    "collectives/rendezvous/tcp": TCP,
    "collectives/transport": SEAMS,
    "collectives/transport/shm": STORE,
    "collectives/transport/tcp": STORE,
    "collectives/reduce": SEAMS,
    "collectives/algorithms": SEAMS | {"collectives/reduce", "collectives/transport"},
    "collectives/self": BACKEND,
    "collectives/shm": BACKEND | {"collectives/transport/shm"},
    "collectives/mpi": BACKEND | {"collectives/launch_contract"},
    "collectives/mpi/plugin": {"collectives/mpi"},
    "collectives/tcp": BACKEND
    | {"collectives/shm", "collectives/transport/shm", "collectives/transport/tcp"},
    "collectives/cuda": SEAMS | {"collectives/reduce"},
    "collectives/nccl": SEAMS
    | {"collectives/algorithms", "collectives/cuda", "collectives/reduce"},
    "collectives/selector": BACKEND
    | {"collectives/transport/shm", "collectives/transport/tcp"}
    | {"collectives/mpi", "collectives/nccl", "collectives/self", "collectives/shm"}
    | {"collectives/tcp"},
    "runtime/include/hvd": set(),
    "runtime/tensor": SEAMS,
    "runtime/negotiation": SEAMS | {"runtime/tensor"},
    "runtime/fusion": SEAMS,
    "runtime/control": SHM | TCP | {"runtime/negotiation"},
    "runtime/timeline": SEAMS | {"runtime/tensor"},
    "runtime/execution": SEAMS
    | {"collectives/reduce", "runtime/tensor", "runtime/negotiation"}
    | {"runtime/fusion", "runtime/timeline"},
    "runtime/engine": CONTRACT
    | {"collectives/transport/tcp", "runtime/tensor", "runtime/negotiation"}
    | {"runtime/control", "runtime/fusion", "runtime/execution", "runtime/timeline"},
    "runtime/bootstrap": SHM
    | TCP
    | {"collectives/rendezvous/tcp", "collectives/mpi", "collectives/selector"}
    | {"collectives/cuda", "runtime/control", "runtime/engine", "runtime/tensor"},
    "runtime/c_api": SEAMS
    | {"runtime/include/hvd", "runtime/tensor", "runtime/engine", "runtime/bootstrap"},
    "runtime/tensorflow": {"runtime/include/hvd"},
    "launcher/model": BASE,
    "launcher/hosts": LAUNCH | launcher("model"),
    "launcher/net": BASE,
    "launcher/output": BASE | launcher("model"),
    "launcher/timeline": BASE | launcher("model output"),
    "launcher/cli": LAUNCH | TCP_BASE | launcher("model hosts"),
    "launcher/plan": CONTRACT | launcher("model hosts"),
    "launcher/wire": LAUNCH | launcher("model"),
    "launcher/agent/processes": LAUNCH,
    "launcher/agent/io": LAUNCH | launcher("wire agent/processes"),
    "launcher/agent/ranks": LAUNCH | launcher("model agent/processes agent/io"),
    "launcher/agent/external": LAUNCH
    | launcher("model hosts plan wire agent/processes agent/io agent/ranks"),
    "launcher/agent/probe": TCP_BASE | launcher("model wire agent/processes agent/io"),
    "launcher/agent/lifecycle": TCP_BASE
    | launcher("model hosts wire")
    | launcher("agent/processes agent/io agent/ranks agent/external agent/probe"),
    "launcher/remote": BASE | launcher("model hosts net output plan"),
    "launcher/remote/local": BASE | launcher("net remote"),
    "launcher/remote/bootstrap": BASE | launcher("net wire remote"),
    "launcher/remote/command": BASE | launcher("model hosts net remote remote/bootstrap"),
    "launcher/remote/ssh": BASE | launcher("model net wire remote remote/bootstrap remote/command"),
    "launcher/remote/join": TCP_BASE
    | launcher("model net output plan wire agent/lifecycle remote remote/ssh"),
    "launcher/remote/slurm": BASE
    | launcher("model hosts net output wire")
    | launcher("remote remote/bootstrap remote/command remote/join"),
    "launcher/remote/gather": BASE
    | launcher("model hosts net output remote remote/join remote/slurm"),
    "launcher/fleet": BASE | launcher("model net remote wire"),
    "launcher/supervise": LAUNCH | launcher("model net output plan wire remote fleet"),
    "launcher/mpi": LAUNCH | launcher("model net output plan remote remote/command supervise"),
    "launcher/report": BASE | launcher("model net output plan remote fleet mpi supervise timeline"),
    "launcher/doctor": LAUNCH
    | launcher("model hosts net output plan wire fleet")
    | launcher("remote remote/gather remote/slurm"),
    "launcher/external": LAUNCH
    | launcher("model plan mpi agent/external agent/probe agent/processes"),
    "launcher": launcher("model net plan wire remote remote/gather fleet mpi supervise report"),
    "apps/horovodrun": BASE
    | launcher("model cli output remote/join doctor external timeline")
    | {"launcher"},
    "apps/hvd-agent": launcher("wire agent/external agent/lifecycle"),
    "apps/hvd-gpu-probe": BASE,
    "apps/hvd-bench": SEAMS | {"runtime/include/hvd"},
}

TOP_FOLDERS = sorted({layer.split("/")[0] for layer in TABLE})
SOURCES = {".hpp", ".cpp", ".cuh", ".cu", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def complaint(source: str, bracket: str, target: str) -> str | None:
    """Why the file `source` may not include `target`, or None."""
    layer = folder_of(source)
    if target.startswith("hvd/"):  # the public headers, included as users do
        target = "runtime/include/" + target
    elif target.split("/")[0] not in TOP_FOLDERS:
        if bracket == '"':
            return f'"{target}" does not start at the root of the repository'
        return None
    elif bracket == "<":
        return f'<{target}> is first-party: write "{target}"'
    wanted = folder_of(target)
    if wanted != layer and wanted not in TABLE[layer]:
        return f"{layer} may not use {wanted} (#include {target})"
    return None


def check_table(root: pathlib.Path) -> list[str]:
    problems = [
        f"{layer} may use {name}, which has no row"
        for layer, allowed in TABLE.items()
        for name in sorted(allowed - TABLE.keys())
    ]
    problems += [f"{layer} is no folder" for layer in TABLE if not (root / layer).is_dir()]
    try:
        graphlib.TopologicalSorter(TABLE).prepare()
    except graphlib.CycleError as error:
        problems.append("cycle: " + " -> ".join(error.args[1]))
    return problems


def check_files(root: pathlib.Path) -> tuple[int, list[str]]:
    files = 0
    problems = []
    for top in TOP_FOLDERS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            files += 1
            name = path.relative_to(root).as_posix()
            if folder_of(name) not in TABLE:
                problems.append(
                    f"{name}:1: {folder_of(name)} has no row in scripts/check_layers.py"
                )
                continue
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                if match := INCLUDE.match(line):
                    reason = complaint(name, *match.groups())
                    if reason:
                        problems.append(f"{name}:{number}: {reason}")
    return files, problems


def main(argv: list[str]) -> int:
    root = pathlib.Path(argv[1] if len(argv) > 1 else pathlib.Path(__file__).parent.parent)
    broken = check_table(root)
    if broken:
        print("\n".join(f"table: {problem}" for problem in broken))
        return 2
    files, problems = check_files(root)
    print("\n".join([*problems, f"layers: {files} files, {len(problems)} violations"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
