# SPDX-License-Identifier: Apache-2.0
"""Collectives on plain values (numbers, arrays), for Keras programs and callbacks."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from horovod.common.basics import Average
from horovod.tensorflow import collectives, mpi_ops
from horovod.tensorflow.compression import Compression, Compressor


def _evaluate(tensor: tf.Tensor) -> Any:
    """The value in eager code, else the tensor."""
    return tensor.numpy() if tf.executing_eagerly() else tensor


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """The value reduced over the ranks: averaged unless `op` says otherwise."""
    reduced = collectives.allreduce(
        tf.convert_to_tensor(value),
        average=average,
        name=name,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        compression=compression,
    )
    return _evaluate(reduced)


def allgather(value: Any, name: str | None = None) -> Any:
    """The ranks' values one after another along the first dimension."""
    return _evaluate(mpi_ops.allgather(tf.convert_to_tensor(value), name=name))


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The root's value."""
    return _evaluate(mpi_ops.broadcast(tf.convert_to_tensor(value), root_rank, name=name))


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> NoReturn:
    raise NotImplementedError("horovod.keras.reducescatter is not supported yet")


def average_numbers(values: dict[str, float], name: str) -> dict[str, float]:
    """The averages of numbers that every rank has under the same keys, in one operation."""
    keys = sorted(values)
    own = np.array([values[key] for key in keys], dtype=np.float64)
    averaged = allreduce(own, name=name)
    return {key: float(averaged[place]) for place, key in enumerate(keys)}
