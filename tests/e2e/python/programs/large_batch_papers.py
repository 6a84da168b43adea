# SPDX-License-Identifier: Apache-2.0
"""LARS, LAMB and RAdam as their papers have them, in NumPy with float64: what the optimizers of the
front ends are compared with, step by step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

Array = np.ndarray

STEPS = 12
SHAPES = ((3, 4), (4,), (2, 2, 3))


def start() -> list[Array]:
    random = np.random.default_rng(7)
    weights = [random.normal(size=shape) for shape in SHAPES]
    weights[1][:] = 0.0  # as a bias begins: a norm of 0
    return weights


def gradients() -> list[list[Array]]:
    random = np.random.default_rng(8)
    steps = [[random.normal(size=shape) for shape in SHAPES] for _ in range(STEPS)]
    steps[3][0][:] = 0.0
    return steps


def lars(
    lr: float, momentum: float, decay: float, eeta: float, nesterov: bool = False
) -> Iterator[list[Array]]:
    """You, Gitman and Ginsburg (2017), algorithm 1: the momentum sums steps, with their rates."""
    weights = start()
    velocity = [np.zeros_like(w) for w in weights]
    for step in gradients():
        for place, g in enumerate(step):
            w = weights[place]
            norms = np.linalg.norm(w), np.linalg.norm(g)
            local = eeta * norms[0] / (norms[1] + decay * norms[0]) if min(norms) > 0 else 1.0
            change = lr * local * (g + decay * w)
            velocity[place] = momentum * velocity[place] + change
            weights[place] = w - (
                momentum * velocity[place] + change if nesterov else velocity[place]
            )
        yield [w.copy() for w in weights]


def lamb(lr: float, beta1: float, beta2: float, eps: float, decay: float) -> Iterator[list[Array]]:
    """You et al. (2020), algorithm 2."""
    weights = start()
    m = [np.zeros_like(w) for w in weights]
    v = [np.zeros_like(w) for w in weights]
    for t, step in enumerate(gradients(), 1):
        for place, g in enumerate(step):
            w = weights[place]
            m[place] = beta1 * m[place] + (1 - beta1) * g
            v[place] = beta2 * v[place] + (1 - beta2) * g * g
            m_hat = m[place] / (1 - beta1**t)
            v_hat = v[place] / (1 - beta2**t)
            u = m_hat / (np.sqrt(v_hat) + eps) + decay * w
            norms = np.linalg.norm(w), np.linalg.norm(u)
            ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
            weights[place] = w - lr * ratio * u
        yield [w.copy() for w in weights]


def radam(
    rates: list[float], beta1: float, beta2: float, threshold: float = 4.0
) -> Iterator[list[Array]]:
    """Liu et al. (2019), algorithm 2, with a rate for each step."""
    weights = start()
    m = [np.zeros_like(w) for w in weights]
    v = [np.zeros_like(w) for w in weights]
    longest = 2 / (1 - beta2) - 1
    for t, step in enumerate(gradients(), 1):
        length = longest - 2 * t * beta2**t / (1 - beta2**t)
        for place, g in enumerate(step):
            m[place] = beta1 * m[place] + (1 - beta1) * g
            v[place] = beta2 * v[place] + (1 - beta2) * g * g
            m_hat = m[place] / (1 - beta1**t)
            if length > threshold:
                rectified = np.sqrt(
                    ((length - 4) * (length - 2) * longest)
                    / ((longest - 4) * (longest - 2) * length)
                )
                adaptive = np.sqrt((1 - beta2**t) / v[place])
                change = rectified * m_hat * adaptive
            else:
                change = m_hat
            weights[place] = weights[place] - rates[t - 1] * change
        yield [w.copy() for w in weights]


def ramp(lr: float, total: int, proportion: float, min_lr: float) -> list[float]:
    """Up from 0 for the proportion, down to min_lr at the end, which stays."""
    warmup = total * proportion
    points = [0.0, warmup, float(total), float(total) + STEPS]
    return [float(np.interp(t, points, [0.0, lr, min_lr, min_lr])) for t in range(1, STEPS + 1)]
