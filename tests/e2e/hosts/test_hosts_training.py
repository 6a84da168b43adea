# SPDX-License-Identifier: Apache-2.0
"""Training over four hosts gives bit for bit what it gives on one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import wording
from cluster import slots
from support.hosts import HostOptions

pytest.importorskip("torch", reason="PyTorch is not installed")

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds

REDUCE = """
import sys
import torch
import horovod.torch as hvd

hvd.init()
torch.manual_seed(hvd.rank())
for size in (1, 7, 1000, 300_000):
    for dtype in (torch.float32, torch.float16, torch.int64):
        tensor = (torch.rand(size) * 1000).to(dtype)
        summed = hvd.allreduce(tensor, op=hvd.Sum, name=f"{size}.{dtype}")
        bits = summed.view(torch.uint8).to(torch.int64)
        print(size, dtype, int((bits * torch.arange(1, bits.numel() + 1)).sum()))
"""


def environment() -> dict[str, str]:
    found = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {**found, "OMP_NUM_THREADS": "1"}


def weights_of(file: Path) -> dict:
    import torch

    return torch.load(file, weights_only=False)


def test_sums_have_the_same_bits_on_every_rank_over_two_hosts(cluster):
    hosts = cluster(2)
    hosts.head.path("/root/reduce.py").write_text(REDUCE)
    command = (sys.executable, "/root/reduce.py")

    one = hosts.run("-np", 4, "-H", "h1:4", *command, env=environment())
    over_two = ("-np", 4, "-H", "h1:2,h2:2", *command)
    two = hosts.run(*over_two, env=environment())
    in_rank_order = hosts.run(*over_two, env=environment() | {"HOROVOD_DETERMINISTIC": "1"})

    for job in (one, two, in_rank_order):
        assert (job.code, len(job.lines)) == (0, 48), job
        assert len({line.split(":", 1)[1] for line in job.lines}) == 12
    assert sorted(in_rank_order.lines) == sorted(one.lines)
    hosts.wait_until_clean(1)


def test_sums_are_right_where_shared_memory_is_small_and_that_is_said(cluster):
    hosts = cluster(2, {2: HostOptions(shm_bytes=64 << 20)})
    hosts.head.path("/root/reduce.py").write_text(REDUCE)

    job = hosts.run("-np", 4, "-H", "h2:4", sys.executable, "/root/reduce.py", env=environment())

    assert (job.code, len(job.lines)) == (0, 48), job.err
    assert len({line.split(":", 1)[1] for line in job.lines}) == 12
    small = wording.line("host h2: " + wording.SMALL_SHM, size="64 MiB")
    assert small in "\n".join(job.said)
    hosts.wait_until_clean(1)


def test_the_training_example_over_four_hosts_equals_the_one_host_result(cluster, root):
    import torch

    hosts = cluster(4)
    example = root / "examples/torch_fashion_mnist.py"

    def train(where: str, name: str):
        options = ("--epochs", 1, "--batches-per-epoch", 5, "--checkpoint", f"/root/{name}")
        command = (sys.executable, example, *options)
        job = hosts.run("-np", 4, "-H", where, *command, env=environment())
        assert job.code == 0, job.err.decode()
        shown = [line for line in job.lines if "accuracy" in line or "loss" in line]
        return shown, weights_of(hosts.head.path(f"/root/{name}"))

    said, weights = train("h1:4", "one")
    said_by_four, weights_of_four = train(slots(hosts.hosts), "four")

    assert said and said == said_by_four

    def flat(value: object) -> list[object]:
        if isinstance(value, dict):
            return [leaf for key in sorted(value, key=str) for leaf in flat(value[key])]
        return [value]

    pairs = list(zip(flat(weights), flat(weights_of_four), strict=True))
    tensors = [(a, b) for a, b in pairs if isinstance(a, torch.Tensor)]
    assert tensors and all(torch.equal(a, b) for a, b in tensors)
