# SPDX-License-Identifier: Apache-2.0
"""What the start of a rank costs on a host without a GPU: `import horovod.torch` after PyTorch, and
`hvd.init()`, with a library that has CUDA and with one that was built without it, in turn.

usage: start.py LIBRARY LIBRARY-WITHOUT-CUDA     prints a line `ROW key | value | where`
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 21
PROGRAM = """
import time
import torch
begin = time.perf_counter()
import horovod.torch as hvd
hvd.init()
print(time.perf_counter() - begin, hvd.cuda_built())
"""


def start(library: str, has_cuda: bool) -> float:
    """Seconds."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "HOROVOD_LIBRARY": library},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    seconds, built = ended.stdout.split()
    if (built == "True") != has_cuda:
        sys.exit(f"{library}: hvd.cuda_built() is {built}")
    return float(seconds)


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = {line.partition(": ")[2] for line in lines if line.startswith("model name")}
    return f"{os.cpu_count()} CPUs of {', '.join(sorted(names))}, no GPU"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    libraries = [(arguments[0], True), (arguments[1], False)]
    for library in libraries:
        start(*library)
    rounds = [[start(*library) * 1e3 for library in libraries] for _ in range(ROUNDS)]
    with_cuda, without = (statistics.median(column) for column in zip(*rounds, strict=True))
    over = statistics.median(one - other for one, other in rounds)
    print(f"ROW start_ms | {over:.1f} ms ({with_cuda:.1f} and {without:.1f}) | {machine()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
