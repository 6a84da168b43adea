# SPDX-License-Identifier: Apache-2.0
"""Process sets inside of hosts and across them, of whose members one is late now and then."""

from __future__ import annotations

import os
import sys

import pytest

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds

# All ranks draw the same operations, and each rank checks its results.
RANDOM = """
import random, sys, time
import numpy
import horovod.numpy as hvd

sets = [hvd.ProcessSet(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [0, 1, 2], [1, 2, 3])]
hvd.init(process_sets=sets)
draw = random.Random(int(sys.argv[1]))
longest = 0
for _ in range(120):
    chosen = draw.choice([hvd.global_process_set, *sets])
    operation = draw.choice(["allreduce", "allgather", "broadcast", "reducescatter"])
    count = draw.choice([1, 1000, 20_000, 300_000])
    ranks = chosen.ranks or list(range(hvd.size()))
    late = draw.choice([*ranks, None, None])
    if hvd.rank() not in ranks:
        continue
    if hvd.rank() == late:
        time.sleep(0.03)
    common = numpy.arange(count, dtype=numpy.float32) % 13
    call = {"name": f"{operation} {ranks} {count}", "process_set": chosen}
    values = common + hvd.rank()
    total = common * len(ranks) + sum(ranks)
    begin = time.monotonic()
    if operation == "allreduce":
        assert (hvd.allreduce(values, op=hvd.Sum, **call) == total).all()
    elif operation == "allgather":
        gathered = numpy.concatenate([common + rank for rank in ranks])
        assert (hvd.allgather(values, **call) == gathered).all()
    elif operation == "broadcast":
        root = ranks[count % len(ranks)]
        assert (hvd.broadcast(values, root_rank=root, **call) == common + root).all()
    else:
        part = numpy.array_split(total, len(ranks))[ranks.index(hvd.rank())]
        assert (hvd.reducescatter(values, op=hvd.Sum, **call) == part).all()
    longest = max(longest, time.monotonic() - begin)
print(longest, flush=True)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_sets_of_any_ranks_go_on_whoever_is_late(cluster, seed):
    hosts = cluster(2)
    hosts.head.path("/root/random_sets.py").write_text(RANDOM)

    job = hosts.run(
        *("-np", 4, "-H", "h1:2,h2:2", "--timeout", 40),
        *(sys.executable, "/root/random_sets.py", seed),
        env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
    )

    assert job.code == 0, job
    longest = [float(line.split(":", 1)[1]) for line in job.lines]
    assert len(longest) == 4 and max(longest) < 2, job
