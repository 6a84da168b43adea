# SPDX-License-Identifier: Apache-2.0
"""Collectives on plain values (numbers, arrays), for Keras programs and callbacks. What they return
is a tensor on TensorFlow, as in the original, and an array on PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from horovod._keras.chosen import framework
from horovod.common.basics import Average

Compression = framework().Compression


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """The value reduced over the ranks: averaged unless `op` says otherwise."""
    return framework().allreduce(
        value,
        average=average,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        compression=compression,
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """The ranks' values one after another along the first dimension."""
    return framework().allgather(value, name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The root's value."""
    return framework().broadcast(value, root_rank, name)


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """This rank's rows of the value reduced over the ranks."""
    return framework().reducescatter(value, name, op)


def average_numbers(values: dict[str, float], name: str) -> dict[str, float]:
    """The averages of numbers that every rank has under the same keys, in one operation."""
    keys = sorted(values)
    own = np.array([values[key] for key in keys], dtype=np.float64)
    averaged = np.asarray(allreduce(own, name=name))
    return {key: float(averaged[place]) for place, key in enumerate(keys)}
