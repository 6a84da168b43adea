# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F

from horovod.common import operations
from horovod.common.basics import Sum, basics, reduce_op
from horovod.torch import submission
from horovod.torch.submission import Place, Settings

_ALLGATHER = Settings(op=operations.ALLGATHER, place=Place.allocated)
_SUM = Settings(op=operations.ALLREDUCE, place=Place.in_place, reduce_op=reduce_op(Sum))


class _Names:
    """Numbers the layers of a world in the order in which they are first used."""

    def __init__(self) -> None:
        self._world = 0
        self._numbers = itertools.count(1)

    def next_name(self) -> str:
        if self._world != basics.worlds_joined:
            self._world = basics.worlds_joined
            self._numbers = itertools.count(1)
        return f"sync_batch_norm.{next(self._numbers)}"


_names = _Names()


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """As torch.nn.BatchNorm1d to 3d; in training, mean and variance are those of all ranks'
    batches together, which may differ in size. All ranks run it in the same order."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._name = ""  # given at the first forward in a world, equal on all ranks
        self._world = 0

    @classmethod
    def convert_sync_batchnorm(cls, module: torch.nn.Module) -> torch.nn.Module:
        """The module with every BatchNorm layer in it replaced by one of this class, which takes
        over parameters and statistics."""
        converted = module
        is_batch_norm = isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
        if is_batch_norm and not isinstance(module, cls):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
            )
            converted.training = module.training
            for tensors in ("_parameters", "_buffers"):
                setattr(converted, tensors, getattr(module, tensors))
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child))
        return converted

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not self.training or basics.size() == 1:
            return self._forward_alone(input)
        self._check_input_dim(input)
        if self._world != basics.worlds_joined:
            self._world = basics.worlds_joined
            self._name = _names.next_name()
        output, mean, variance, count = _Normalise.apply(
            input, self.weight, self.bias, self.eps, self._name
        )
        if self.track_running_stats:
            self._track(mean, variance, count)
        return output

    def _forward_alone(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        is_tracking = self.training and self.track_running_stats
        momentum = self._next_momentum() if is_tracking else 0.0
        uses_batch = self.training or (self.running_mean is None and self.running_var is None)
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            uses_batch,
            momentum,
            self.eps,
        )

    def _next_momentum(self) -> float:
        """The weight of the batch that comes; without `momentum` all batches weigh the same."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return 1.0 / float(self.num_batches_tracked)
        return self.momentum or 0.0

    @torch.no_grad()
    def _track(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        momentum = self._next_momentum()
        unbiased = variance * (count / (count - 1).clamp(min=1))  # no host wait for a GPU's count
        for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.lerp_(value.to(running.dtype), momentum)


def _gather_statistics(
    values: torch.Tensor, name: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, variance and count of all ranks' columns. The ranks' own are combined as deviations
    from the common mean, in float64, so that nothing is lost where the mean is large."""
    channels = values.shape[1]
    own = values.new_zeros(1, 2 * channels + 1, dtype=torch.float64)
    if values.shape[0] > 0:
        variance, mean = torch.var_mean(values, 0, correction=0)
        own[0, :channels], own[0, channels:-1], own[0, -1] = mean, variance, values.shape[0]
    (everywhere,) = submission.run(submission.one("allgather", name, own), _ALLGATHER)
    counts = everywhere[:, -1:]
    means, variances = everywhere[:, :channels], everywhere[:, channels:-1]
    count = counts.sum()
    mean = (counts * means).sum(0) / count
    variance = (counts * (variances + (means - mean) ** 2)).sum(0) / count
    return mean, variance, count


class _Normalise(torch.autograd.Function):
    """Gradient: that of the normalisation of the joined batch, for this rank's rows. Weight and
    bias get this rank's part, which an optimizer combines as all other gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        eps: float,
        name: str,
    ) -> tuple[torch.Tensor, ...]:
        kind = torch.float64 if input.dtype == torch.float64 else torch.float32
        values = _as_rows(input.to(kind))
        mean, variance, count = _gather_statistics(values, f"{name}.forward")
        mean, inverse = mean.to(kind), torch.rsqrt(variance + eps).to(kind)
        normalised = (values - mean) * inverse
        output = normalised
        if weight is not None:
            output = output * weight.to(kind) + bias.to(kind)
        ctx.save_for_backward(normalised, inverse, weight)
        ctx.count, ctx.name = count, name
        ctx.mark_non_differentiable(mean, variance, count)
        return _as_input(output, input).to(input.dtype), mean, variance, count

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> Any:
        normalised, inverse, weight = ctx.saved_tensors
        rows = _as_rows(gradient.to(normalised.dtype))
        of_bias = rows.sum(0)
        of_weight = (rows * normalised).sum(0)
        sums = torch.stack([of_bias, of_weight]).double()
        submission.run(submission.one("allreduce", f"{ctx.name}.backward", sums), _SUM)
        mean, mean_with_normalised = (sums / ctx.count).to(rows.dtype)
        of_input = (rows - mean - normalised * mean_with_normalised) * inverse
        if weight is None:
            return _as_input(of_input, gradient).to(gradient.dtype), None, None, None, None
        of_input = _as_input(of_input * weight.to(rows.dtype), gradient).to(gradient.dtype)
        return of_input, of_weight.to(weight.dtype), of_bias.to(weight.dtype), None, None


def _as_rows(input: torch.Tensor) -> torch.Tensor:
    """(batch, channels, ...) as (values of a channel, channels)."""
    return input.movedim(1, -1).reshape(-1, input.shape[1])


def _as_input(rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The other way round."""
    shape = like.movedim(1, -1).shape
    return rows.reshape(shape).movedim(-1, 1).contiguous()
