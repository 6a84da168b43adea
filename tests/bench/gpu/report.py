# SPDX-License-Identifier: Apache-2.0
"""Adds the figures in PART.log to FOLDER/rows.json and writes FOLDER/gpu.md.

usage: report.py PART FOLDER       report.py FOLDER: writes gpu.md only
"""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from pathlib import Path

# (part, key, description, aim)
ROWS = (
    ("latency", "over_4b", "one allreduce of 4 bytes, over bare ncclAllReduce", "3 us"),
    ("latency", "over_64mb", "one allreduce of 64 MB, over bare ncclAllReduce", "1 %"),
    ("latency", "of_torch_4b", "one allreduce of 4 bytes, of what torch.distributed takes", "1"),
    ("host", "host_ms", "host time per step of DistributedOptimizer, 161 gradients", "1 ms"),
    ("host", "host_ddp_ms", "host time per step of DistributedDataParallel, 161 gradients", ""),
    ("host", "many_ms", "10,000 tensors of 1 KB in one call, until the GPU is done", ""),
    ("training", "of_plain", "images/s of ResNet-50 at np=1, of plain PyTorch's", "99 %"),
    ("sharing", "is_right", "2 ranks that share the GPU: sums of 64 MB", "exact"),
    ("abi", "right_1_nccl", "right results of the C ABI at 1 rank by NCCL, of 498", "498"),
    ("abi2", "right_2_host", "right results at 2 ranks that share the GPU, of 498", "498"),
    ("abi", "abi_4b", "hvd_run_stream of 4 bytes, over bare ncclAllReduce", "3 us"),
    ("abi", "abi_64mb", "hvd_run_stream of 64 MiB, over bare ncclAllReduce", "1 %"),
    ("abi", "abi_20_64mb", "20 calls of 64 MiB before the host waits, over bare NCCL", "1 %"),
    ("abi", "abi_161", "hvd_run_stream of 161 gradients, until the GPU is done", ""),
    ("abi", "abi_many", "hvd_run_stream of 10,000 tensors of 1 KB, until the GPU is done", ""),
    ("abi", "bandwidth", "pack and unpack of 161 gradients, of the copy bandwidth", "85 %"),
    ("abi", "launches", "10,000 tensors of 1 KB packed, in launch latencies", "10"),
    ("start", "start_ms", "import and init without a GPU, over a build without CUDA", "0 ms"),
)
HEAD = """# Figures of a machine with a GPU

Made by `scripts/gpu_report.sh PART FOLDER`. Figures of different dates may be of different GPUs,
which the last column names.

| Figure | Value | Aim | Part | Made on |
|---|---|---|---|---|
"""


def main(arguments: list[str]) -> int:
    folder = Path(arguments[-1])
    store = folder / "rows.json"
    rows = json.loads(store.read_text()) if store.exists() else {}
    found = []
    if len(arguments) == 2:
        log = (folder / f"{arguments[0]}.log").read_text()
        found = re.findall(r"ROW (\w+) \| (.*) \| (.*)", log)
        for key, value, place in found:
            rows[key] = {"value": value, "place": f"{date.today()}, {place}"}
        store.write_text(json.dumps(rows, indent=1))
    text = HEAD
    for part, key, what, aim in ROWS:
        row = rows.get(key, {"value": "never run on a GPU", "place": ""})
        text += f"| {what} | {row['value']} | {aim} | `{part}` | {row['place']} |\n"
    (folder / "gpu.md").write_text(text)
    if len(arguments) == 2 and not found:
        print(f"{arguments[0]}: no figures", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
