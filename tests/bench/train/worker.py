# SPDX-License-Identifier: Apache-2.0
"""One rank of the training benchmark: `worker.py plain|horovod|ddp MODEL BATCH SECONDS`."""

from __future__ import annotations

import os
import sys
import time

import torch
from torch import nn

WARMUP_STEPS = 3


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


def main() -> None:
    engine, model_name, batch_size, seconds = sys.argv[1:]
    torch.manual_seed(1)
    model = wide_resnet() if model_name == "wrn" else small_cnn()
    rank, size = 0, 1
    trained: nn.Module = model
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    if engine == "horovod":
        import horovod.torch as hvd

        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    elif engine == "ddp":
        from torch import distributed

        distributed.init_process_group("gloo")
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        trained = nn.parallel.DistributedDataParallel(model)

    images = torch.randn(int(batch_size), 1, 28, 28)
    labels = torch.randint(10, (int(batch_size),))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(trained(images), labels).backward()
        optimizer.step()

    def seconds_of(steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        return time.perf_counter() - begin

    seconds_of(WARMUP_STEPS)
    # The same number of steps on all ranks: from the slowest one's step.
    step_seconds = torch.tensor(seconds_of(2) / 2)
    if engine == "horovod":
        step_seconds = hvd.allreduce(step_seconds, op=hvd.Max)
    elif engine == "ddp":
        distributed.all_reduce(step_seconds, distributed.ReduceOp.MAX)
    steps = max(3, int(float(seconds) / step_seconds.item()))
    cpu_begin = time.process_time()
    seconds_taken = seconds_of(steps)
    cpu_taken = time.process_time() - cpu_begin
    images_here = steps * int(batch_size)
    if rank == 0:
        print(f"images_per_second {images_here * size / seconds_taken:.2f}")
        print(f"cpu_us_per_image {cpu_taken / images_here * 1e6:.2f}", flush=True)
    if engine == "ddp":
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
