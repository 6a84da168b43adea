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
from horovod.common.basics import Average, Sum, basics, reduce_op
from horovod.torch import submission
from horovod.torch.submission import Place, Settings

Tensors = Sequence[torch.Tensor]

_AVERAGE = Settings(op=operations.ALLREDUCE, place=Place.beside, reduce_op=reduce_op(Average))
_SUM = reduce_op(Sum)


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

    def average(self) -> Wanted:
        """The average of the gradients over the ranks of this call."""
        return self.of(
            "allreduce", dataclasses.replace(_AVERAGE, process_set=self.settings.process_set)
        )

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
        averaged = ctx.wanted.average().run(gradients)
        of_all = Wanted("allgather", None, ctx.wanted.settings, is_group=False)
        (rows,) = of_all.run_plain([torch.tensor([ctx.rows])])  # (ranks, tensors)
        before = rows[: ctx.wanted.settings.process_set.rank()].sum(0).tolist()
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
        averaged = ctx.wanted.average().run(gradients)
        if basics.rank() != ctx.wanted.settings.root:
            averaged = tuple(torch.zeros_like(gradient) for gradient in averaged)
        return (None, *averaged)


class HorovodAlltoall(torch.autograd.Function):
    """Gradient: the rows go back to where they came from; rows that were not sent have none."""

    @staticmethod
    def forward(ctx: Any, wanted: Wanted, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        settings = dataclasses.replace(wanted.settings, returns_splits=True)
        output, received = dataclasses.replace(wanted, settings=settings).run_plain([tensor])
        ctx.wanted = wanted
        ctx.rows = tensor.shape[0]
        ctx.received = tuple(received.tolist())
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor) -> Any:
        settings = dataclasses.replace(
            ctx.wanted.settings, splits=ctx.received, returns_splits=True
        )
        own, _ = ctx.wanted.of("alltoall", settings).run([gradient])
        unsent = ctx.rows - own.shape[0]
        if unsent > 0:
            own = torch.cat([own, own.new_zeros((unsent, *own.shape[1:]))])
        return None, own


class HorovodReducescatter(torch.autograd.Function):
    """Gradient: all ranks' gradients one after another; of a sum, as the original has it, times
    the number of ranks."""

    @staticmethod
    def forward(ctx: Any, wanted: Wanted, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.wanted = wanted
        return wanted.run_plain(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        settings = ctx.wanted.settings
        factor = settings.prescale * settings.postscale
        if settings.reduce_op == _SUM:
            factor *= settings.process_set.size()
        allgather = Settings(
            op=operations.ALLGATHER, place=Place.allocated, process_set=settings.process_set
        )
        scaled = gradients if factor == 1.0 else [gradient * factor for gradient in gradients]
        return (None, *ctx.wanted.of("allgather", allgather).run(scaled))


_FUNCTIONS: dict[int, type[torch.autograd.Function]] = {
    operations.ALLREDUCE: HorovodAllreduce,
    operations.ALLGATHER: HorovodAllgather,
    operations.BROADCAST: HorovodBroadcast,
    operations.ALLTOALL: HorovodAlltoall,
    operations.REDUCESCATTER: HorovodReducescatter,
}
