#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy 14 with the profile of .clang-tidy.

usage: tidy.py [--analyzer] [--seconds N] [FILE...]

Without FILE, on the whole tree; a header among FILE is checked through a source that includes it. A
source that was clean before is left out while it, the headers of the project that it includes, the
profile and its compile command stay the same ($XDG_CACHE_HOME/horovodrun-tidy). The files that
changed last come first. --seconds N begins with no further source after that time, and says how
many are left. --analyzer adds the path analyzer (clang-analyzer-*), which takes half of the time
and finds little that the sanitizers miss.

exit code: 1 where clang-tidy has found something
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/tidy"
CLEAN = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "horovodrun-tidy"
PROGRAM = "clang-tidy-14"
INCLUDE = re.compile(rb'^#\s*include "([^"]+)"', re.MULTILINE)


def configure() -> dict[str, str]:
    """The compile command of every source that the build compiles, by its path from the root."""
    log = BUILD.with_suffix(".log")
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as output:
        ended = subprocess.run(
            ["cmake", "--preset", "tidy"], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        )
    if ended.returncode != 0:
        sys.exit(f"tidy.py: cmake --preset tidy failed:\n{log.read_text()}")
    commands = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        name = os.path.relpath(entry["file"], ROOT)
        if not name.startswith(("build/", "..")):
            commands.setdefault(name, entry["command"])
    return commands


@functools.cache
def digest(name: str) -> str:
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()


@functools.cache
def includes(name: str) -> tuple[str, ...]:
    """Files of the project that this one includes itself: by their path from the root, or beside
    it."""
    found = []
    for match in INCLUDE.findall((ROOT / name).read_bytes()):
        text = match.decode()
        for path in (text, os.path.normpath(Path(name).parent / text)):
            if (ROOT / path).is_file():
                found.append(str(path))
                break
    return tuple(found)


@functools.cache
def parts(source: str) -> frozenset[str]:
    """The source and all files of the project that it includes."""
    seen, waiting = {source}, [source]
    while waiting:
        new = set(includes(waiting.pop())) - seen
        seen |= new
        waiting += new
    return frozenset(seen)


def mark_of(source: str, command: str, options: list[str]) -> Path:
    """A file that is there where the source, as it is now, has been clean."""
    profiles = [folder / ".clang-tidy" for folder in Path(source).parents]
    files = [*sorted(parts(source)), *(str(one) for one in profiles if (ROOT / one).is_file())]
    contents = [f"{one} {digest(one)}" for one in files]
    text = [tool_version(), *options, command.replace(str(ROOT), ""), *contents]
    return CLEAN / hashlib.sha256("\n".join(text).encode()).hexdigest()


@functools.cache
def tool_version() -> str:
    return subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True).stdout


def chosen(files: Iterable[str], sources: Iterable[str]) -> list[str]:
    """The sources among the files, and one for each header: its own, else the first with it."""
    found = set()
    known = sorted(sources)
    for file in files:
        name = os.path.relpath(Path(file).resolve(), ROOT)
        own = str(Path(name).with_suffix(".cpp"))
        users = [source for source in known if name in parts(source)]
        if not users:
            sys.exit(f"tidy.py: {file} is in no source that the build compiles")
        found.add(name if name in users else own if own in users else users[0])
    return sorted(found)


def newest_first(sources: Iterable[str]) -> list[str]:
    """By the last commit that changed the source, then by that of the files that it includes."""
    command = ["git", "log", "-n", "100", "--name-only", "--format="]
    log = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    changed = subprocess.run(
        ["git", "diff", "--name-only", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    place = {}
    for number, name in enumerate(filter(None, (changed + log).splitlines())):
        place.setdefault(name, number)
    last = len(place) + 1
    return sorted(
        sources,
        key=lambda one: (place.get(one, last), min(place.get(part, last) for part in parts(one))),
    )


def lint(source: str, options: list[str], mark: Path) -> str | None:
    """What clang-tidy says; None where the source is clean, which the mark then tells."""
    command = [PROGRAM, "-p", str(BUILD), "--quiet", *options, source]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode == 0:
        mark.touch()
        return None
    said = [line for line in ended.stderr.splitlines() if not line.endswith("warnings generated.")]
    return ended.stdout + "\n".join(said)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[2].removeprefix("usage: "))
    parser.add_argument("--analyzer", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    options = [] if args.analyzer else ["--checks=-clang-analyzer-*"]
    commands = configure()
    CLEAN.mkdir(parents=True, exist_ok=True)
    sources = chosen(args.files, commands) if args.files else list(commands)
    marks = {one: mark_of(one, commands[one], options) for one in sources}
    waiting = newest_first(one for one in sources if not marks[one].exists())
    print(f"tidy: {len(sources)} sources, {len(sources) - len(waiting)} of them clean as before")

    until = time.monotonic() + args.seconds
    left, found = [], []

    def check(source: str) -> None:
        if time.monotonic() > until:
            left.append(source)
            return
        said = lint(source, options, marks[source])
        if said is not None:
            found.append(source)
            print(said, flush=True)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(check, waiting))
    print(f"tidy: {len(waiting) - len(left)} checked, {len(found)} with findings, {len(left)} left")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
