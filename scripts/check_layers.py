#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every #include goes forward. TABLE is the architecture; CMake's links repeat it.

usage: check_layers.py [ROOT]      exit code 0 clean, 1 violations (file:line: reason), 2 bad table
"""

import graphlib
import pathlib
import re
import sys

# What a folder may include besides itself. A row stands for the files of that folder and of those
# below it that have no row of their own; a top-level folder's row stands for its own files only.
# Tests may include anything and are not in the table.
BASE = {"collectives/base"}
SEAMS = BASE | {"collectives"}
CONTRACT = BASE | {"collectives", "collectives/launch_contract"}
STORE = CONTRACT | {"collectives/rendezvous"}
SHM = STORE | {"collectives/transport/shm"}
TCP = STORE | {"collectives/transport/tcp"}
BACKEND = SEAMS | {"collectives/algorithms", "collectives/reduce", "collectives/transport"}
PLAN = CONTRACT | {"launcher/hosts", "launcher/plan"}
REMOTE = PLAN | {"launcher/wire", "launcher/net", "launcher/remote"}

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
    "collectives/tcp": BACKEND | {"collectives/transport/tcp"},
    "collectives/selector": BACKEND
    | {"collectives/transport/shm", "collectives/transport/tcp"}
    | {"collectives/mpi", "collectives/self", "collectives/shm", "collectives/tcp"},
    "runtime/include": set(),
    "runtime/tensor": SEAMS,
    "runtime/negotiation": SEAMS | {"runtime/tensor"},
    "runtime/fusion": SEAMS,
    "runtime/control": SHM | TCP | {"runtime/negotiation"},
    "runtime/timeline": SEAMS | {"runtime/tensor"},
    "runtime/execution": SEAMS
    | {"collectives/reduce", "runtime/tensor", "runtime/negotiation"}
    | {"runtime/fusion", "runtime/timeline"},
    "runtime/engine": SEAMS
    | {"collectives/transport/tcp", "runtime/tensor", "runtime/negotiation"}
    | {"runtime/control", "runtime/fusion", "runtime/execution", "runtime/timeline"},
    "runtime/bootstrap": SHM
    | TCP
    | {"collectives/rendezvous/tcp", "collectives/mpi", "collectives/selector"}
    | {"runtime/control", "runtime/engine", "runtime/tensor"},
    "runtime/c_api": SEAMS
    | {"runtime/include", "runtime/tensor", "runtime/engine", "runtime/bootstrap"},
    "runtime/tensorflow": {"runtime/include"},
    "launcher/hosts": CONTRACT,
    "launcher/net": BASE,
    "launcher/output": BASE,
    "launcher/cli": BASE | {"collectives/transport/tcp", "launcher/hosts", "launcher/output"},
    "launcher/plan": CONTRACT | {"launcher/hosts"},
    "launcher/mpi": PLAN,
    "launcher/wire": PLAN,
    "launcher/agent": PLAN | {"launcher/wire", "collectives/transport/tcp"},
    "launcher/remote": PLAN
    | {"launcher/wire", "launcher/net", "launcher/agent", "collectives/transport/tcp"},
    "launcher/doctor": REMOTE | {"launcher/supervise"},
    "launcher/supervise": REMOTE | {"launcher/output"},
    "launcher/timeline": BASE,
    "launcher": REMOTE
    | {"launcher/agent", "launcher/cli", "launcher/doctor", "launcher/mpi"}
    | {"launcher/output", "launcher/supervise", "launcher/timeline"},
    "apps/horovodrun": BASE | {"launcher", "launcher/cli", "launcher/remote"},
    "apps/hvd-agent": BASE | {"launcher/agent", "launcher/wire"},
    "apps/hvd-gpu-probe": BASE,
    "apps/hvd-bench": SEAMS | {"collectives/selector", "runtime/include"},
}

TOP_FOLDERS = sorted({layer.split("/")[0] for layer in TABLE})
SOURCES = {".hpp", ".cpp", ".cuh", ".cu", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def layer_of(path: str) -> str:
    """The nearest folder above the file that has a row; without one, the folder itself."""
    folders = path.split("/")[:-1]
    for depth in range(len(folders), 1, -1):
        if (layer := "/".join(folders[:depth])) in TABLE:
            return layer
    return "/".join(folders)


def complaint(source: str, bracket: str, target: str) -> str | None:
    """Why the file `source` may not include `target`, or None."""
    layer = layer_of(source)
    if target.startswith("hvd/"):  # the public headers, included as users do
        target = "runtime/include/" + target
    elif target.split("/")[0] not in TOP_FOLDERS:
        if bracket == '"':
            return f'"{target}" does not start at the root of the repository'
        return None
    elif bracket == "<":
        return f'<{target}> is first-party: write "{target}"'
    wanted = layer_of(target)
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
            if layer_of(name) not in TABLE:
                problems.append(f"{name}:1: {layer_of(name)} has no row in scripts/check_layers.py")
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
