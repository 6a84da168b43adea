# SPDX-License-Identifier: Apache-2.0
"""Optimizers for large batches, and learning rates that follow the number of ranks.

torch.optim has no LARS and no LAMB; its RAdam begins to rectify at a length of 5, the paper at 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from horovod.common.basics import basics
from horovod.common.learning_rate import scaled_lr, warmup_factor, warmup_lr

__all__ = ["LAMB", "LARS", "RAdam", "WarmupLR", "scaled_lr", "warmup_lr"]


class _LayerOptimizer(torch.optim.Optimizer):
    """Steps through the parameters one by one. Subclasses have `_update`."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        for name in ("lr", "eps", "weight_decay"):
            if defaults[name] < 0:
                raise ValueError(f"{name} is {defaults[name]}: it must not be negative")
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; returns what `closure`, which computes the loss, has returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    gradient = parameter.grad
                    dense = gradient.to_dense() if gradient.is_sparse else gradient
                    self._update(parameter, dense, self.state[parameter], group)
        return loss

    def _update(
        self,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        raise NotImplementedError


class LARS(_LayerOptimizer):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017), for large batches.

    Each parameter has its own rate: `lr * eeta * |w| / (|g| + weight_decay * |w| + eps)`. A group
    with "adapt": False, as for biases, gets neither this factor nor the weight decay.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        eps: float = 0.0,
        nesterov: bool = False,
        adapt: bool = True,
    ) -> None:
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "eeta": eeta}
        super().__init__(params, {**settings, "eps": eps, "nesterov": nesterov, "adapt": adapt})

    def _update(
        self,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        if not state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        rate: Any = group["lr"]
        if group["adapt"]:
            decay = group["weight_decay"]
            w_norm, g_norm = parameter.norm(), gradient.norm()
            local = group["eeta"] * w_norm / (g_norm + decay * w_norm + group["eps"])
            # Without a branch, so that a GPU need not be awaited.
            rate = rate * torch.where(torch.minimum(w_norm, g_norm) > 0, local, 1.0)
            gradient = gradient + decay * parameter
        step = rate * gradient
        velocity = state["momentum_buffer"].mul_(group["momentum"]).add_(step)
        if group["nesterov"]:
            parameter.sub_(group["momentum"] * velocity + step)
        else:
            parameter.sub_(velocity)


def _moments(
    parameter: torch.Tensor, gradient: torch.Tensor, state: dict[str, Any], group: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The averages of gradients and of their squares, of this step on."""
    if not state:
        state["step"] = torch.tensor(0.0)  # a tensor, as in torch.optim
        state["exp_avg"] = torch.zeros_like(parameter)
        state["exp_avg_sq"] = torch.zeros_like(parameter)
    beta1, beta2 = group["betas"]
    state["step"] += 1
    first = state["exp_avg"].mul_(beta1).add_(gradient, alpha=1 - beta1)
    second = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    return first, second


class LAMB(_LayerOptimizer):
    """Layer-wise adaptive moments (You et al. 2020), for large batches: Adam, whose step and weight
    decay are scaled to the norm of each parameter. "adapt" is as in LARS."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adapt: bool = True,
    ) -> None:
        settings = {"lr": lr, "betas": betas, "eps": eps}
        super().__init__(params, {**settings, "weight_decay": weight_decay, "adapt": adapt})

    def _update(
        self,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        first, second = _moments(parameter, gradient, state, group)
        step = int(state["step"])
        beta1, beta2 = group["betas"]
        average = (second / (1 - beta2**step)).sqrt_().add_(group["eps"])
        update = (first / (1 - beta1**step)).div_(average)
        rate: Any = group["lr"]
        if group["adapt"]:
            update.add_(parameter, alpha=group["weight_decay"])
            w_norm, u_norm = parameter.norm(), update.norm()
            is_defined = torch.minimum(w_norm, u_norm) > 0
            rate = rate * torch.where(is_defined, w_norm / u_norm, 1.0)
        parameter.sub_(rate * update)


class RAdam(_LayerOptimizer):
    """Rectified Adam (Liu et al. 2019).

    With `total_steps` the rate rises from 0 to `lr` during the first `warmup_proportion` of them,
    and then falls to `min_lr`. A step is rectified where the length of the moving average is above
    `sma_threshold`: 4 in the paper, 5 in other implementations. The weight decay is decoupled.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        total_steps: int = 0,
        warmup_proportion: float = 0.1,
        min_lr: float = 0.0,
        sma_threshold: float = 4.0,
    ) -> None:
        ramp = {"total_steps": total_steps, "warmup_proportion": warmup_proportion}
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **ramp}
        super().__init__(params, {**settings, "min_lr": min_lr, "sma_threshold": sma_threshold})

    def _update(
        self,
        parameter: torch.Tensor,
        gradient: torch.Tensor,
        state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:
        first, second = _moments(parameter, gradient, state, group)
        step = int(state["step"])
        beta1, beta2 = group["betas"]
        rate = _ramp(group, step)
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        if group["weight_decay"]:
            parameter.mul_(1 - rate * group["weight_decay"])
        update = first / (1 - beta1**step)
        if length > group["sma_threshold"]:
            gain = (length - 4) * (length - 2) * longest
            update *= math.sqrt(gain / ((longest - 4) * (longest - 2) * length))
            update /= (second / (1 - beta2**step)).sqrt_().add_(group["eps"])
        parameter.sub_(update, alpha=rate)


def _ramp(group: dict[str, Any], step: int) -> float:
    """The rate of RAdam in this step, counted from 1."""
    lr, total = float(group["lr"]), group["total_steps"]
    if not total:
        return lr
    warmup = total * group["warmup_proportion"]
    if step <= warmup:
        return lr * step / warmup
    down = min(1.0, (step - warmup) / max(total - warmup, 1))
    return lr + (float(group["min_lr"]) - lr) * down


class WarmupLR(torch.optim.lr_scheduler.LambdaLR):
    """Raises the rates of an optimizer from `lr / size` to `lr` during `warmup_steps` calls of
    `step()`; `lr` is the rate already scaled for all ranks. `size` is the number of ranks of the
    job unless given. Others of torch.optim.lr_scheduler may follow it in a SequentialLR."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_steps: int,
        size: int | None = None,
        last_epoch: int = -1,
    ) -> None:
        ranks = basics.size() if size is None else size
        super().__init__(
            optimizer, lambda step: warmup_factor(step + 1, warmup_steps, ranks), last_epoch
        )
