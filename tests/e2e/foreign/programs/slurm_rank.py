# SPDX-License-Identifier: Apache-2.0
"""A rank that tells where it stands and which variables of Slurm and of GPUs it has.

With a number of seconds as argument it then counts signals for so long: first it says "ready", at
the end (or at TERM) how many of which it got.
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
    # The last signal may come more than once: what is too many is seen too.
    while time.monotonic() < end:
        time.sleep(0.05)
        if counts["TERM"] and end - time.monotonic() > 2:
            end = time.monotonic() + 2
    print(json.dumps({"rank": rank, "counts": counts}), flush=True)
