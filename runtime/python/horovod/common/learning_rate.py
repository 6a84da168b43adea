# SPDX-License-Identifier: Apache-2.0
"""How a learning rate follows the number of ranks, as numbers. The front ends have schedules and
callbacks that apply it."""

from __future__ import annotations

import math

from horovod.common.basics import basics

_RULES = {"linear": float, "sqrt": math.sqrt}


def scale_factor(rule: str = "linear", size: int | None = None) -> float:
    """What the rate of one rank is multiplied by: the number of ranks, or with "sqrt" its root."""
    if rule not in _RULES:
        raise ValueError(f"rule is {rule!r}: use 'linear' or 'sqrt'")
    return _RULES[rule](basics.size() if size is None else size)


def scaled_lr(lr: float, rule: str = "linear", size: int | None = None) -> float:
    """The learning rate for all ranks, from that for one: `lr * size`, as the batch of a step grows
    with the ranks (Goyal et al. 2017); with rule="sqrt", `lr * sqrt(size)`. `size` is the number of
    ranks of the job unless given."""
    return lr * scale_factor(rule, size)


def warmup_factor(steps: float, warmup_steps: float, size: int | None = None) -> float:
    """What the scaled rate is multiplied by for the step that ends at `steps` (the first is 1): it
    rises from about 1/size to 1 at `warmup_steps`, and stays there."""
    ranks = basics.size() if size is None else size
    progress = 1.0 if warmup_steps <= 0 else min(1.0, steps / warmup_steps)
    return (progress * (ranks - 1) + 1) / ranks


def warmup_lr(step: int, lr: float, warmup_steps: int, size: int | None = None) -> float:
    """The learning rate of a step, counted from 0, while it rises from `lr / size` to `lr`."""
    return lr * warmup_factor(step + 1, warmup_steps, size)
