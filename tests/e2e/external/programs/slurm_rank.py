# SPDX-License-Identifier: Apache-2.0
"""A rank that tells where it stands and which variables of Slurm and of GPUs it has.

With a number of seconds as argument it then waits for a signal for so long, and says how many of
which it got: not at once, so that what comes twice is seen.
"""

import json
import os
import signal
import socket
import sys
import time

GIVEN = ("SLURM", "SRUN_", "PMI", "CUDA_", "HOROVOD_HOSTNAME")

rank = int(os.environ["HOROVOD_RANK"])
counts = {"USR1": 0, "USR2": 0, "TERM": 0}


def count(number: int, frame: object) -> None:
    counts[signal.Signals(number).name.removeprefix("SIG")] += 1


for name in counts:
    signal.signal(getattr(signal, f"SIG{name}"), count)
print(
    json.dumps(
        {
            "rank": rank,
            "size": int(os.environ["HOROVOD_SIZE"]),
            "local": [int(os.environ[f"HOROVOD_LOCAL_{name}"]) for name in ("RANK", "SIZE")],
            "cross": [int(os.environ[f"HOROVOD_CROSS_{name}"]) for name in ("RANK", "SIZE")],
            "host": socket.gethostname(),
            "cpus": sorted(os.sched_getaffinity(0)),
            "variables": {k: v for k, v in os.environ.items() if k.startswith(GIVEN)},
        }
    ),
    flush=True,
)
if len(sys.argv) > 1:
    end = time.monotonic() + float(sys.argv[1])
    has_come = False
    while time.monotonic() < end:
        time.sleep(0.05)
        if any(counts.values()) and not has_come:
            has_come = True
            end = time.monotonic() + 2.5
    print(json.dumps({"rank": rank, "counts": counts}), flush=True)
