# SPDX-License-Identifier: Apache-2.0
"""horovod.torch with tensors of a GPU, for any number of ranks. With HVD_TEST_DEVICE=cpu the same
on the host, so that the program itself is tested without a GPU."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "e2e/python/programs"))
from cases import case, run

import horovod.numpy
import horovod.torch as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
SUM = SIZE * (SIZE + 1) // 2  # of rank + 1
KIND = os.environ.get("HVD_TEST_DEVICE", "cuda")
DEVICE = torch.device(KIND)
if KIND == "cuda":  # ranks share a GPU where there are more of them
    DEVICE = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(DEVICE)
DTYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)


def mine(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, RANK + 1, dtype=dtype, device=DEVICE)


def check(result: torch.Tensor, wanted: float) -> None:
    assert result.device == DEVICE, result.device
    assert bool((result == wanted).all()), (wanted, result.flatten()[:8])


@case
def allreduce_in_every_form() -> None:
    for dtype in DTYPES:
        check(hvd.allreduce(mine(3, 5, dtype=dtype), op=hvd.Sum), SUM)
    for count in (0, 1, 1023, 1 << 20):
        check(hvd.allreduce(mine(count), op=hvd.Sum), SUM)
    tensor = mine(7)
    assert hvd.allreduce_(tensor, op=hvd.Max) is tensor
    check(tensor, SIZE)
    handle = hvd.allreduce_async(mine(1000), name="one", op=hvd.Sum, postscale_factor=0.5)
    while not hvd.poll(handle):
        pass
    check(hvd.synchronize(handle), SUM / 2)
    for result in hvd.grouped_allreduce([mine(n) for n in (1, 300, 5)], op=hvd.Sum):
        check(result, SUM)
    strided = mine(4, 6).t()
    hvd.allreduce_(strided, op=hvd.Sum)
    check(strided, SUM)


@case
def rows_are_gathered_shared_and_exchanged() -> None:
    gathered = hvd.allgather(mine(RANK + 1, 2))
    wanted = [rank + 1.0 for rank in range(SIZE) for _ in range(rank + 1)]
    assert gathered.device == DEVICE and gathered[:, 1].tolist() == wanted, gathered
    check(hvd.broadcast(mine(9), SIZE - 1), SIZE)
    check(hvd.reducescatter(mine(2 * SIZE + 1, 3), op=hvd.Sum), SUM)
    splits = torch.arange(1, SIZE + 1)
    received, counts = hvd.alltoall(mine(int(splits.sum())), splits=splits)
    assert counts.tolist() == [RANK + 1] * SIZE, counts
    assert received.tolist() == [rank + 1.0 for rank in range(SIZE) for _ in range(RANK + 1)]


@case
def results_follow_the_streams_of_the_caller() -> None:
    """A busy stream makes the input, another one reads the result."""
    if KIND != "cuda":
        return
    makes, reads = torch.cuda.Stream(), torch.cuda.Stream()
    for step in range(30):
        with torch.cuda.stream(makes):
            torch.cuda._sleep(2_000_000)
            tensor = torch.full((1 << 18,), float(RANK + 1 + step), device=DEVICE)
            handle = hvd.allreduce_async(tensor, name="streams", op=hvd.Sum)
        del tensor
        with torch.cuda.stream(reads):
            result = hvd.synchronize(handle)
            last = hvd.allgather(result[:1])
            check(result, SUM + SIZE * step)
            check(last, SUM + SIZE * step)
        noise = torch.full((1 << 18,), -1.0, device=DEVICE)  # of memory that was given back
        del result, noise


def train(wrap: bool, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        *(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.ReLU()),
        torch.nn.Linear(30, 4),
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if wrap:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
    for inputs, targets in batches:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


@case
def training_with_equal_batches_is_training_alone() -> None:
    generator = torch.Generator().manual_seed(3)
    batches = [
        (
            torch.randn(16, 20, generator=generator).to(DEVICE),
            torch.randint(4, (16,), generator=generator).to(DEVICE),
        )
        for _ in range(8)
    ]
    for alone, together in zip(train(False, batches), train(True, batches), strict=True):
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@case
def sync_batch_norm_normalises_all_batches() -> None:
    torch.manual_seed(5)
    whole = torch.randn(4 * SIZE, 6, 3, device=DEVICE)
    whole = hvd.broadcast(whole, 0)
    layer = hvd.SyncBatchNorm(6).to(DEVICE)
    reference = torch.nn.BatchNorm1d(6).to(DEVICE)
    own = whole[4 * RANK : 4 * RANK + 4]
    torch.testing.assert_close(layer(own), reference(whole)[4 * RANK : 4 * RANK + 4])
    torch.testing.assert_close(layer.running_var, reference.running_var)


@case
def horovod_numpy_takes_tensors_and_gives_plain_arrays() -> None:
    result = horovod.numpy.allreduce(mine(3, 1000), name="numpy", op=hvd.Sum)
    check(torch.from_dlpack(result), SUM)
    check(torch.as_tensor(horovod.numpy.allgather(mine(RANK + 1, 2)), device=DEVICE)[-1], SIZE)
    tensor = mine(1 << 16)
    assert horovod.numpy.allreduce_(tensor, op=hvd.Max) is tensor
    check(tensor, SIZE)


if __name__ == "__main__":
    print(f"world {RANK} {SIZE} on {DEVICE}", flush=True)
    run()
