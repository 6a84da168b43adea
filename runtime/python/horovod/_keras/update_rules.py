# SPDX-License-Identifier: Apache-2.0
"""One step of LARS, LAMB and RAdam, over the tensors of any framework.

`math` is keras.ops, or has the same functions of TensorFlow. `t` counts steps from 1, in float64,
because 1 - beta ** t loses half of its digits in float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Tensor = Any


class Lars(NamedTuple):
    """You, Gitman and Ginsburg (2017), algorithm 1."""

    momentum: float
    weight_decay: float
    eeta: float
    epsilon: float
    nesterov: bool

    def step(
        self, math: Any, w: Tensor, g: Tensor, slots: list[Tensor], lr: Tensor, is_adapted: bool
    ) -> tuple[Tensor, list[Tensor]]:
        (velocity,) = slots
        rate = lr
        if is_adapted:
            w_norm, g_norm = _norm(math, w), _norm(math, g)
            local = self.eeta * w_norm / (g_norm + self.weight_decay * w_norm + self.epsilon)
            is_defined = math.minimum(w_norm, g_norm) > 0
            rate = lr * math.where(is_defined, local, math.ones_like(w_norm))
            g = g + self.weight_decay * w
        step = rate * g
        velocity = self.momentum * velocity + step
        return w - (self.momentum * velocity + step if self.nesterov else velocity), [velocity]


class Lamb(NamedTuple):
    """You et al. (2020), algorithm 2, with the identity as its function phi."""

    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay: float

    def step(
        self,
        math: Any,
        w: Tensor,
        g: Tensor,
        slots: list[Tensor],
        lr: Tensor,
        is_adapted: bool,
        t: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        m, v = _moments(math, g, slots, self.beta_1, self.beta_2)
        m_hat = m / math.cast(1 - self.beta_1**t, m.dtype)
        v_hat = v / math.cast(1 - self.beta_2**t, v.dtype)
        update = m_hat / (math.sqrt(v_hat) + self.epsilon)
        ratio = 1.0
        if is_adapted:
            update = update + self.weight_decay * w
            w_norm, u_norm = _norm(math, w), _norm(math, update)
            is_defined = math.minimum(w_norm, u_norm) > 0
            ratio = math.where(is_defined, w_norm / u_norm, math.ones_like(w_norm))
        return w - lr * ratio * update, [m, v]


class RectifiedAdam(NamedTuple):
    """Liu et al. (2019), algorithm 2. Above 4, its `sma_threshold`, the variance is tractable."""

    beta_1: float
    beta_2: float
    epsilon: float
    weight_decay: float
    sma_threshold: float

    def step(
        self, math: Any, w: Tensor, g: Tensor, slots: list[Tensor], lr: Tensor, t: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        m, v = _moments(math, g, slots, self.beta_1, self.beta_2)
        m_hat = m / math.cast(1 - self.beta_1**t, m.dtype)
        power = self.beta_2**t
        longest = 2 / (1 - self.beta_2) - 1
        length = longest - 2 * t * power / (1 - power)
        tractable = math.maximum((length - 4) * (length - 2), 0.0)
        rectified = math.sqrt(
            tractable * longest / ((longest - 4) * (longest - 2) * math.maximum(length, 1.0))
        )
        v_hat = v / math.cast(1 - power, v.dtype)
        adaptive = math.cast(rectified, m.dtype) * m_hat / (math.sqrt(v_hat) + self.epsilon)
        update = math.where(length > self.sma_threshold, adaptive, m_hat)
        if self.weight_decay:
            update = update + self.weight_decay * w
        return w - lr * update, [m, v]


class Ramp(NamedTuple):
    """The rate of RAdam by steps: up from 0 during `warmup_proportion` of `total_steps`, then down
    to `min_lr`. Without `total_steps` it stays as it is."""

    total_steps: int
    warmup_proportion: float
    min_lr: float

    def rate(self, math: Any, lr: Tensor, t: Tensor) -> Tensor:
        if not self.total_steps:
            return lr
        warmup = self.total_steps * self.warmup_proportion
        decay = max(self.total_steps - warmup, 1)
        down = math.minimum(math.maximum(t - warmup, 0.0) / decay, 1.0)
        later = lr + (self.min_lr - lr) * math.cast(down, lr.dtype)
        if warmup <= 0:
            return later
        return math.where(t <= warmup, lr * math.cast(t / warmup, lr.dtype), later)


def _moments(
    math: Any, g: Tensor, slots: list[Tensor], beta_1: float, beta_2: float
) -> list[Tensor]:
    m, v = slots
    return [beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * math.square(g)]


def _norm(math: Any, x: Tensor) -> Tensor:
    return math.sqrt(math.sum(math.square(x)))
