# SPDX-License-Identifier: Apache-2.0
"""After a rank is killed, no process of the job is on the GPU and its memory is back within 5 s.

usage: memory.py HOROVODRUN
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

PROGRAM = """
import os, torch, horovod.torch as hvd
hvd.init()
torch.cuda.set_device(0)
tensor = torch.ones(1 << 28, device="cuda")
hvd.allreduce_(tensor[:1 << 20])
torch.cuda.synchronize()
print("pid", os.getpid(), flush=True)
while True:
    hvd.allreduce_(tensor[:1 << 20])
"""
LIMIT_S = 5
SLACK_MIB = 16


def used_mib() -> int:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return sum(map(int, subprocess.check_output(query, text=True).split()))


def main() -> int:
    before = used_mib()
    flags = ["--share-gpus", "--env", "HOROVOD_GPU_OPERATIONS=host"]
    command = [sys.argv[1], "-np", "2", *flags, sys.executable, "-c", PROGRAM]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    pids = []
    try:
        assert job.stdout is not None
        for line in job.stdout:
            print(line, end="", flush=True)
            if "pid " in line:
                pids.append(int(line.split("pid ")[1]))
            if len(pids) == 2:
                break
        if len(pids) < 2:
            print("the job has not started")
            return 1
        running = used_mib()
        os.kill(pids[1], signal.SIGKILL)
        killed = time.monotonic()
        print(job.stdout.read(), end="")
        code = job.wait(timeout=30)
    finally:
        job.kill()
    while (after := used_mib()) > before + SLACK_MIB and time.monotonic() - killed < 2 * LIMIT_S:
        time.sleep(0.1)
    took = time.monotonic() - killed
    print(f"memory used: {before} MiB before, {running} running, {after} {took:.1f} s after a kill")
    print(f"horovodrun: exit code {code}")
    is_well = after <= before + SLACK_MIB and took < LIMIT_S and running > before + 2000
    return 0 if is_well and code == 128 + signal.SIGKILL else 1


if __name__ == "__main__":
    sys.exit(main())
