# SPDX-License-Identifier: Apache-2.0
"""One rank of the training benchmark: `worker.py COMPARISON MODEL BATCH SECONDS`.

COMPARISON is what horovod.torch takes turns with: plain, ddp, or itself with a timeline.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import distributed, nn

import horovod.torch as hvd

WARMUP_STEPS = 3
TURN_SECONDS = 0.1
TIMELINE_TURN_SECONDS = 0.5  # many writes of the timeline, which come every 50 ms


def block(inputs: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
    )


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = block(inputs, outputs, stride)
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x) + self.skip(x)


def wide_resnet() -> nn.Module:
    """11 million parameters in 44 tensors."""
    layers: list[nn.Module] = [nn.Conv2d(1, 16, 3, padding=1, bias=False)]
    width = 16
    for outputs, stride in ((128, 1), (256, 2), (512, 2)):
        for place in range(2):
            layers.append(Residual(width, outputs, stride if place == 0 else 1))
            width = outputs
    layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def small_cnn() -> nn.Module:
    """0.4 million parameters in 8 tensors: the gradients are small, the steps are short."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 49, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


Step = Callable[[], None]


def make_step(engine: str, model_name: str, batch_size: int) -> Step:
    """A training step on random images; the same network and images for every engine."""
    torch.manual_seed(1)
    model = wide_resnet() if model_name == "wrn" else small_cnn()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    trained: nn.Module = model
    if engine == "horovod":
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    elif engine == "ddp":
        trained = nn.parallel.DistributedDataParallel(model)
    images = torch.randn(batch_size, 1, 28, 28)
    labels = torch.randint(10, (batch_size,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(images), labels).backward()
        optimizer.step()

    return step


def seconds_of(step: Step, steps: int) -> float:
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return time.perf_counter() - begin


def slowest(step_seconds: float) -> float:
    """Of all ranks: they must take the same number of steps."""
    return hvd.allreduce(torch.tensor(step_seconds), op=hvd.Max).item()


def run_paired(other: str, model_name: str, batch_size: int, seconds: float) -> None:
    """The other engine and horovod.torch take turns of a few steps in one process: between
    processes the memory that each got makes more difference than what is measured here. Rank 0
    prints."""
    engines = (other, "horovod")
    steps = {engine: make_step(engine, model_name, batch_size) for engine in engines}
    for step in steps.values():
        seconds_of(step, WARMUP_STEPS)
    step_seconds = slowest(seconds_of(steps[other], 2) / 2)
    turn = max(1, int(TURN_SECONDS / step_seconds))
    rounds = max(3, int(seconds / (turn * step_seconds)))
    taken: dict[str, list[float]] = {engine: [] for engine in engines}
    cpu_taken = dict.fromkeys(engines, 0.0)
    for round_number in range(rounds):
        for engine in engines if round_number % 2 else engines[::-1]:
            cpu_begin = time.process_time()
            taken[engine].append(seconds_of(steps[engine], turn))
            cpu_taken[engine] += time.process_time() - cpu_begin
    if hvd.rank() != 0:
        return
    for engine in engines:
        rate = turn * batch_size * hvd.size() / statistics.median(taken[engine])
        print(f"{engine}_images_per_second {rate:.2f}")
        cpu_us = cpu_taken[engine] / (rounds * turn * batch_size) * 1e6
        print(f"{engine}_cpu_us_per_image {cpu_us:.2f}")
    ratios = [theirs / ours for theirs, ours in zip(taken[other], taken["horovod"], strict=True)]
    print(f"ratio {statistics.median(ratios):.4f}", flush=True)


def run_timeline(model_name: str, batch_size: int, seconds: float) -> None:
    """All ranks train together, rank 0 by turns with and without a timeline; it prints. Starting
    and stopping, which a training does once, and the step after them are left out."""
    step = make_step("horovod", model_name, batch_size)
    seconds_of(step, WARMUP_STEPS)
    step_seconds = slowest(seconds_of(step, 2) / 2)
    turn = max(1, int(TIMELINE_TURN_SECONDS / step_seconds))
    rounds = max(3, int(2 * seconds / (2 * turn * step_seconds)))
    ratios: dict[str, list[float]] = {"ratio": [], "cpu_ratio": []}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "timeline.json"
        written = 0

        def take_turn(has_timeline: bool) -> tuple[float, float]:
            nonlocal written
            if has_timeline:
                hvd.start_timeline(str(file), mark_cycles=False)
            step()
            cpu_begin = time.process_time()
            taken = seconds_of(step, turn)
            cpu_taken = time.process_time() - cpu_begin
            if has_timeline:
                hvd.stop_timeline()
                written += file.stat().st_size if hvd.rank() == 0 else 0
            return taken, cpu_taken

        for round_number in range(rounds):
            order = (False, True) if round_number % 2 else (True, False)
            taken = {has_timeline: take_turn(has_timeline) for has_timeline in order}
            for name, without, having in zip(ratios, taken[False], taken[True], strict=True):
                ratios[name].append(without / having)
    if hvd.rank() == 0:
        print(f"timeline_bytes_per_step {written / (rounds * turn):.0f}")
        for name, found in ratios.items():
            print(f"{name} {statistics.median(found):.4f}", flush=True)


def main() -> None:
    comparison, model_name, batch_size, seconds = sys.argv[1:]
    hvd.init()
    if comparison == "timeline":
        run_timeline(model_name, int(batch_size), float(seconds))
        return
    if comparison == "ddp":
        distributed.init_process_group("gloo")
    run_paired(comparison, model_name, int(batch_size), float(seconds))
    if comparison == "ddp":
        hvd.shutdown()
        distributed.barrier()  # a rank whose store has gone may wait forever in the next line
        distributed.destroy_process_group()
        # PyTorch's Gloo threads may outlive this, and abort a Python that ends in order.
        os._exit(0)


if __name__ == "__main__":
    main()
