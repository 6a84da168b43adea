# SPDX-License-Identifier: Apache-2.0
"""The blocking operations as autograd functions: what flows back through each of them.

Each takes a group; the operations on one tensor are groups of one in all but the name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from horovod.common import operations
from horovod.common.basics import Average, basics, reduce_op
from horovod.torch import submission
from horovod.torch.submission import Place, Settings

Tensors = Sequence[torch.Tensor]

_AVERAGE = Settings(op=operations.ALLREDUCE, place=Place.beside, reduce_op=reduce_op(Average))


def _wants_gradient(tensor: object) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One blocking call, without its tensors."""

    label: str
    name: str | None
    settings: Settings
    is_group: bool

    def of(self, label: str, settings: Settings) -> Wanted:
        """The call of the way back; it has no name of its own."""
        return Wanted(f"grouped_{label}" if self.is_group else label, None, settings, self.is_group)

    def run(self, tensors: Tensors) -> tuple[torch.Tensor, ...]:
        """Runs it now. Differentiable where an input asks for a gradient."""
        if torch.is_grad_enabled() and any(map(_wants_gradient, tensors)):
            return _FUNCTIONS[self.settings.op].apply(self, *tensors)
        return self.run_plain(tensors)

    def run_plain(self, tensors: Tensors) -> tuple[torch.Tensor, ...]:
        if self.is_group:
            batch = submission.group(self.label, self.name, tensors)
        else:
            batch = submission.one(self.label, self.name, tensors[0])
        return tuple(submission.run(batch, self.settings))


class HorovodAllreduce(torch.autograd.Function):
    """Gradient: the allreduce of the gradients, with the same op and scales."""

    @staticmethod
    def forward(ctx: Any, wanted: Wanted, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.wanted = wanted
        return wanted.run_plain(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return (None, *ctx.wanted.of("allreduce", ctx.wanted.settings).run(gradients))


class HorovodAllgather(torch.autograd.Function):
    """Gradient: the average of the gradients, cut to the rows that came from this rank."""

    @staticmethod
    def forward(ctx: Any, wanted: Wanted, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.wanted = wanted
        ctx.rows = [tensor.shape[0] for tensor in tensors if tensor.dim() > 0]
        return wanted.run_plain(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        averaged = ctx.wanted.of("allreduce", _AVERAGE).run(gradients)
        of_all = Wanted("allgather", None, ctx.wanted.settings, is_group=False)
        (rows,) = of_all.run_plain([torch.tensor([ctx.rows])])  # (ranks, tensors)
        before = rows[: basics.rank()].sum(0).tolist()
        own = [
            gradient.narrow(0, start_row, count)
            for gradient, start_row, count in zip(averaged, before, ctx.rows, strict=True)
        ]
        return (None, *own)


class HorovodBroadcast(torch.autograd.Function):
    """Gradient: the average of the gradients on the root, zero elsewhere."""

    @staticmethod
    def forward(ctx: Any, wanted: Wanted, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.wanted = wanted
        return wanted.run_plain(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        averaged = ctx.wanted.of("allreduce", _AVERAGE).run(gradients)
        if basics.rank() != ctx.wanted.settings.root:
            averaged = tuple(torch.zeros_like(gradient) for gradient in averaged)
        return (None, *averaged)


_FUNCTIONS: dict[int, type[torch.autograd.Function]] = {
    operations.ALLREDUCE: HorovodAllreduce,
    operations.ALLGATHER: HorovodAllgather,
    operations.BROADCAST: HorovodBroadcast,
}
