# SPDX-License-Identifier: Apache-2.0
"""What horovod.torch takes on a GPU. Each figure is a line `ROW key | value | where`.

usage: measure.py latency|host|training|sharing     under horovodrun

HVD_TEST_DEVICE=cpu runs it on the host, as a test of the program: its figures mean nothing then.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import torch

import horovod.torch as hvd

IS_GPU = os.environ.get("HVD_TEST_DEVICE", "cuda") == "cuda"
DEVICE = torch.device("cuda", 0) if IS_GPU else torch.device("cpu")
# The sizes of ResNet-50's parameters: bottlenecks of (width, blocks), then the classifier.
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def synchronize() -> None:
    if IS_GPU:
        torch.cuda.synchronize()


def row(key: str, value: str) -> None:
    where = "a CPU, as a test"
    if IS_GPU:
        where = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, NCCL "
        where += ".".join(map(str, torch.cuda.nccl.version()))
    if hvd.rank() == 0:
        print(f"ROW {key} | {value} | {where}", flush=True)


def seconds(function: Callable[[], object], times: int) -> float:
    """Of one call, until the GPU is done with it."""
    synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        function()
        synchronize()
    return (time.perf_counter() - begin) / times


def alternate(first: Callable[[], float], second: Callable[[], float], rounds: int) -> list[float]:
    """The medians of both, which take turns so that both see the same machine."""
    pairs = [(first(), second()) for _ in range(rounds)]
    return [statistics.median(side) for side in zip(*pairs, strict=True)]


def latency() -> None:
    small, large = torch.ones(1, device=DEVICE), torch.ones(16 << 20, device=DEVICE)
    bare: Callable[[torch.Tensor], object] = lambda tensor: tensor.mul_(1)  # noqa: E731
    if IS_GPU:
        from bare_nccl import BareNccl

        nccl = BareNccl(0)
        bare = nccl.allreduce_
        print("bare NCCL", nccl.version, flush=True)
    figures = []
    for tensor, times in ((small, 200), (large, 20)):

        def ours(tensor: torch.Tensor = tensor) -> None:
            hvd.allreduce_(tensor, op=hvd.Sum, name=f"latency.{tensor.numel()}")

        seconds(ours, 5)
        seconds(lambda tensor=tensor: bare(tensor), 5)
        figures.append(
            alternate(
                lambda ours=ours, times=times: seconds(ours, times),
                lambda tensor=tensor, times=times: seconds(lambda: bare(tensor), times),
                7,
            )
        )
    (ours_s, bare_s), (ours_l, bare_l) = figures
    row(
        "over_4b",
        f"{(ours_s - bare_s) * 1e6:.1f} us ({ours_s * 1e6:.1f} and {bare_s * 1e6:.1f})",
    )
    row(
        "over_64mb",
        f"{(ours_l / bare_l - 1) * 100:.1f} % ({ours_l * 1e3:.3f} and {bare_l * 1e3:.3f} ms)",
    )


def sizes_of_resnet50() -> list[int]:
    sizes, channels = [3 * 64 * 49, 64, 64], 64
    for width, blocks in STAGES:
        for block in range(blocks):
            sizes += [channels * width, width, width, 9 * width * width, width, width]
            sizes += [4 * width * width, 4 * width, 4 * width]
            if block == 0:
                sizes += [channels * 4 * width, 4 * width, 4 * width]
            channels = 4 * width
    return [*sizes, channels * 1000, 1000]


def host() -> None:
    """The host's part of step and backward, with the optimizer and without."""
    sizes = sizes_of_resnet50()
    assert len(sizes) == 161, len(sizes)

    def make(wrap: bool) -> Callable[[], float]:
        parameters = [torch.nn.Parameter(torch.zeros(size, device=DEVICE)) for size in sizes]
        optimizer = torch.optim.SGD(parameters, lr=0.0)
        if wrap:
            named = [(f"p{number}", one) for number, one in enumerate(parameters)]
            optimizer = hvd.DistributedOptimizer(optimizer, named)

        def steps() -> float:
            taken = []
            for _ in range(20):
                optimizer.zero_grad()
                loss = sum(parameter.sum() for parameter in parameters)
                synchronize()
                begin = time.perf_counter()
                loss.backward()
                optimizer.step()
                taken.append(time.perf_counter() - begin)
                synchronize()
            return statistics.median(taken)

        steps()
        return steps

    ours, plain = alternate(make(True), make(False), 5)
    row("host_ms", f"{(ours - plain) * 1e3:.2f} ms ({ours * 1e3:.2f} and {plain * 1e3:.2f})")
    many = list(torch.ones(10_000, 256, device=DEVICE).unbind())

    def reduce_many() -> None:
        hvd.grouped_allreduce_(many, op=hvd.Sum, name="many")

    seconds(reduce_many, 2)
    row("many_ms", f"{seconds(reduce_many, 5) * 1e3:.1f} ms")


def training() -> None:
    from torchvision.models import resnet50

    batch = 64 if IS_GPU else 2
    side = 224 if IS_GPU else 32
    images = torch.randn(batch, 3, side, side, device=DEVICE)
    labels = torch.randint(1000, (batch,), device=DEVICE)

    def make(wrap: bool) -> Callable[[], float]:
        model = resnet50().to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        if wrap:
            optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=IS_GPU):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()

        def round_of_steps() -> float:
            count = 10 if IS_GPU else 1
            synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                step()
            synchronize()
            return (time.perf_counter() - begin) / count

        round_of_steps()
        return round_of_steps

    ours, plain = alternate(make(True), make(False), 15 if IS_GPU else 2)
    row(
        "of_plain",
        f"{plain / ours * 100:.1f} % ({batch / ours:.0f} and {batch / plain:.0f} images/s)",
    )


def sharing() -> None:
    size = hvd.size()
    for step in range(5):
        tensor = torch.full((16 << 20,), float(hvd.rank() + step), device=DEVICE)
        hvd.allreduce_(tensor, op=hvd.Sum, name="sharing")
        wanted = size * step + size * (size - 1) // 2
        if not bool((tensor == wanted).all()):
            row("is_right", f"WRONG at step {step}")
            sys.exit(1)
    took = seconds(lambda: hvd.allreduce_(tensor, op=hvd.Sum, name="sharing"), 5)
    row("is_right", f"exact, {took * 1e3:.1f} ms each, through memory of the host")


if __name__ == "__main__":
    hvd.init()
    if IS_GPU:
        torch.cuda.set_device(DEVICE)
    {"latency": latency, "host": host, "training": training, "sharing": sharing}[sys.argv[1]]()
