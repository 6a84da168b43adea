# SPDX-License-Identifier: Apache-2.0
"""One rank of a comparison of horovod.torch with torch.distributed over Gloo: `against_gloo.py
ROUNDS MAX_BYTES`, under horovodrun.

Both take turns in the same processes. Rank 0 prints lines of "case bytes ours_us theirs_us ratio":
medians of the rounds.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import distributed

import horovod.torch as hvd

Call = Callable[[], object]

TURN_SECONDS = 0.05  # a turn takes about this long
BUCKET_BYTES = 25 << 20  # DDP's


def largest(value: float) -> float:
    """Of all ranks, so that all agree on it."""
    return hvd.allreduce(
        torch.tensor(value, dtype=torch.float64), op=hvd.Max, name="largest"
    ).item()


def seconds_of(call: Call, calls: int) -> float:
    """Of one call, on the rank that takes longest."""
    distributed.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return largest((time.perf_counter() - begin) / calls)


def compare(rounds: int, case: str, size: int, ours: Call, theirs: Call) -> None:
    sides = (ours, theirs)
    slower = max(seconds_of(side, 2) for side in sides)
    calls = min(2000, max(1, int(TURN_SECONDS / slower)))
    times: list[list[float]] = [[], []]
    for number in range(rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            times[side].append(seconds_of(sides[side], calls) * 1e6)
    ratio = statistics.median(mine / other for mine, other in zip(*times, strict=True))
    if hvd.rank() == 0:
        medians = " ".join(f"{statistics.median(found):.2f}" for found in times)
        print(case, size, medians, f"{ratio:.4f}", flush=True)


def resnet50() -> list[torch.Tensor]:
    """Its 161 gradients, 102 MB."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        outputs = 4 * width
        for block in range(blocks):
            for of, to, kernel in (
                (inputs, width, 1),
                (width, width, 3),
                (width, outputs, 1),
            ):
                shapes += [(to, of, kernel, kernel), (to,), (to,)]
            if block == 0:
                shapes += [(outputs, inputs, 1, 1), (outputs,), (outputs,)]
            inputs = outputs
    shapes += [(1000, 2048), (1000,)]
    return [torch.zeros(shape) for shape in shapes]


def by_name(tensors: list[torch.Tensor], prefix: str) -> Call:
    names = [f"{prefix}.{number}" for number in range(len(tensors))]

    def call() -> None:
        handles = [
            hvd.allreduce_async_(tensor, name=name, op=hvd.Sum)
            for tensor, name in zip(tensors, names, strict=True)
        ]
        for handle in handles:
            hvd.synchronize(handle)

    return call


def by_gloo(tensors: list[torch.Tensor]) -> Call:
    def call() -> None:
        for work in [distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    return call


def buckets_of(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """As many bytes in buckets, which are full already: DDP copies into them too."""
    left = sum(tensor.nbytes for tensor in tensors)
    buckets = []
    while left > 0:
        buckets.append(torch.zeros(min(left, BUCKET_BYTES) // 4))
        left -= BUCKET_BYTES
    return buckets


def compare_sizes(rounds: int, largest_size: int) -> None:
    size = 1 << 10
    while size <= largest_size:
        tensor = torch.zeros(size // 4)
        out = torch.zeros_like(tensor)
        share = torch.zeros(tensor.numel() // hvd.size())
        compare(
            rounds,
            "alltoall",
            size,
            lambda tensor=tensor, size=size: hvd.alltoall(tensor, name=f"alltoall.{size}"),
            lambda tensor=tensor, out=out: distributed.all_to_all_single(out, tensor),
        )
        compare(
            rounds,
            "reducescatter",
            size,
            lambda tensor=tensor, size=size: hvd.reducescatter(
                tensor, name=f"reducescatter.{size}", op=hvd.Sum
            ),
            lambda tensor=tensor, share=share: distributed.reduce_scatter_tensor(share, tensor),
        )
        size *= 4


def main() -> None:
    rounds, largest_size = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    hvd.init()
    distributed.init_process_group("gloo")
    one = torch.zeros(1)
    compare(
        rounds,
        "allreduce",
        one.nbytes,
        lambda: hvd.allreduce_(one, name="one", op=hvd.Sum),
        lambda: distributed.all_reduce(one),
    )
    gradients = resnet50()
    size = sum(tensor.nbytes for tensor in gradients)
    compare(
        rounds,
        "resnet50",
        size,
        by_name(gradients, "resnet"),
        by_gloo(buckets_of(gradients)),
    )
    for count, elements in ((1_000, 64), (10_000, 256)):
        tensors = [torch.zeros(elements) for _ in range(count)]
        compare(
            rounds,
            f"calls_{count}",
            tensors[0].nbytes,
            by_name(tensors, f"calls{count}"),
            by_gloo(tensors),
        )
    compare_sizes(rounds, largest_size)
    distributed.barrier()  # a rank whose store has gone may wait forever in the next line
    distributed.destroy_process_group()
    # PyTorch's Gloo threads may outlive this, and abort a Python that ends in order.
    os._exit(0)


if __name__ == "__main__":
    main()
