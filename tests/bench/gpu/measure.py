# SPDX-License-Identifier: Apache-2.0
"""What horovod.torch takes on a GPU. Each figure is a line `ROW key | value | where`.

usage: measure.py latency|host|training|sharing     under horovodrun

HVD_TEST_DEVICE=cpu runs it on the host, as a test of the program: its figures mean nothing then.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from networks import sizes_of_resnet50

import horovod.torch as hvd

IS_GPU = os.environ.get("HVD_TEST_DEVICE", "cuda") == "cuda"
DEVICE = torch.device("cuda", 0) if IS_GPU else torch.device("cpu")


def synchronize() -> None:
    if IS_GPU:
        torch.cuda.synchronize()


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """PyTorch's own, of one rank; only while it is measured, since it slows other calls down."""
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=DEVICE)
    yield
    dist.destroy_process_group()


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
    """Of a blocking call, results in a tensor of their own: in place NCCL does nothing at one
    rank."""
    copy: Callable[[torch.Tensor, torch.Tensor], object] = lambda source, out: out.copy_(source)  # noqa: E731
    bare = copy
    if IS_GPU:
        from bare_nccl import BareNccl

        nccl = BareNccl(0)
        bare = nccl.allreduce
        print("bare NCCL", nccl.version, flush=True)
    figures = []
    for count, times in ((1, 200), (16 << 20, 20)):
        tensor = torch.ones(count, device=DEVICE)
        out = torch.empty_like(tensor)

        def ours(tensor: torch.Tensor = tensor) -> None:
            hvd.allreduce(tensor, op=hvd.Sum, name=f"latency.{tensor.numel()}")

        def theirs(tensor: torch.Tensor = tensor, out: torch.Tensor = out) -> None:
            bare(tensor, out)

        seconds(ours, 5)
        seconds(theirs, 5)
        figures.append(
            alternate(
                lambda ours=ours, times=times: seconds(ours, times),
                lambda theirs=theirs, times=times: seconds(theirs, times),
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
    if not IS_GPU:
        return
    small = torch.ones(1, device=DEVICE)
    calls = (
        lambda: hvd.allreduce_(small, op=hvd.Sum, name="latency.peer"),
        lambda: dist.all_reduce(small),
    )
    turns = [lambda call=call: seconds(call, 200) for call in calls]
    with process_group():
        for turn in turns:
            turn()
        ours_p, peer = alternate(*turns, 7)
    row("of_torch_4b", f"{ours_p / peer:.2f} ({ours_p * 1e6:.1f} and {peer * 1e6:.1f} us)")


class Parameters(torch.nn.Module):
    """As many as ResNet-50 has, of its sizes; the output is the sum of them all."""

    def __init__(self) -> None:
        super().__init__()
        for number, size in enumerate(sizes_of_resnet50()):
            zeros = torch.zeros(size, device=DEVICE)
            self.register_parameter(f"p{number}", torch.nn.Parameter(zeros))

    def forward(self) -> torch.Tensor:
        return torch.stack([parameter.sum() for parameter in self.parameters()]).sum()


def host() -> None:
    """The host's part of step and backward: with the optimizer, without, and with PyTorch's own
    DistributedDataParallel."""

    def make(kind: str) -> Callable[[], float]:
        module: torch.nn.Module = Parameters()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
        if kind == "ours":
            optimizer = hvd.DistributedOptimizer(optimizer, module.named_parameters())
        elif kind == "peer":
            module = torch.nn.parallel.DistributedDataParallel(module)

        def steps() -> float:
            taken = []
            for _ in range(20):
                optimizer.zero_grad()
                loss = module()
                synchronize()
                begin = time.perf_counter()
                loss.backward()
                optimizer.step()
                taken.append(time.perf_counter() - begin)
                synchronize()
            return statistics.median(taken)

        steps()
        return steps

    ours, plain = alternate(make("ours"), make("plain"), 5)
    row("host_ms", f"{(ours - plain) * 1e3:.2f} ms ({ours * 1e3:.2f} and {plain * 1e3:.2f})")
    many = list(torch.ones(10_000, 256, device=DEVICE).unbind())

    def reduce_many() -> None:
        hvd.grouped_allreduce_(many, op=hvd.Sum, name="many")

    seconds(reduce_many, 2)
    row("many_ms", f"{seconds(reduce_many, 5) * 1e3:.1f} ms")
    if IS_GPU:
        with process_group():
            peer, plain = alternate(make("peer"), make("plain"), 5)
        times = f"({peer * 1e3:.2f} and {plain * 1e3:.2f})"
        row("host_ddp_ms", f"{(peer - plain) * 1e3:.2f} ms {times}")


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
