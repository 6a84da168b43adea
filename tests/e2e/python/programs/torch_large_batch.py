# SPDX-License-Identifier: Apache-2.0
"""Optimizers for large batches over several ranks, and one rank of a host before the others."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from cases import case, raises, run

import horovod.torch as hvd
from horovod.torch.optim import LAMB, LARS, RAdam


def data_of(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(rank)
    return torch.randn(8, 3, generator=random), torch.randn(8, 2, generator=random)


def trained(make: Callable[[Any], Any], is_alone: bool) -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = make(model.parameters())
    if not is_alone:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        assert type(optimizer).__name__ == type(make(model.parameters())).__name__
    parts = [data_of(rank) for rank in range(hvd.size())] if is_alone else [data_of(hvd.rank())]
    x, y = (torch.cat([part[i] for part in parts]) for i in range(2))
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        hvd.broadcast_optimizer_state(optimizer, 0)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return model


@case
def they_are_distributed() -> None:
    for make in (
        lambda params: LARS(params, lr=0.5),
        lambda params: LAMB(params, lr=0.1, weight_decay=0.1),
        lambda params: RAdam(params, lr=0.1, total_steps=9, min_lr=1e-5),
    ):
        together, alone = trained(make, False), trained(make, True)
        for mine, expected in zip(together.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)


@case
def local_rank_0_is_first() -> None:
    with hvd.local_first():
        entered = time.monotonic()
        if hvd.local_rank() == 0:
            time.sleep(0.2)
        left = time.monotonic()
    times = hvd.allgather_object((entered, left))
    assert all(times[0][1] <= entered for entered, _ in times[1:]), times


@case
def a_block_that_raises_lets_others_in() -> None:
    def download() -> None:
        with hvd.local_first():
            raise OSError("no network")

    assert raises(OSError, download) == "no network"
    assert all(hvd.allgather_object(True))


if __name__ == "__main__":
    hvd.init()
    run()
