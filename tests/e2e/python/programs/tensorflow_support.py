# SPDX-License-Identifier: Apache-2.0
"""Data that differ by rank, and how results are compared, for the TensorFlow programs.

TensorFlow has one thread to run ops with here: a collective that blocked it would block all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

tf.config.threading.set_inter_op_parallelism_threads(1)

INTEGERS = [tf.uint8, tf.int8, tf.uint16, tf.int16, tf.uint32, tf.int32, tf.uint64, tf.int64]
FLOATS = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
SHAPES = [(), (1,), (7,), (3, 5), (0,), (2, 0, 3), (17, 1031)]


def mine(shape: tuple[int, ...], rank: int) -> np.ndarray:
    """Small integers that differ by place and rank, so that every sum is exact in every type."""
    return (np.arange(np.prod(shape, dtype=int)) * 3 + rank).reshape(shape) % 5


def everybody(shape: tuple[int, ...]) -> np.ndarray:
    return np.stack([mine(shape, rank) for rank in range(hvd.size())])


def same(actual: tf.Tensor, expected: Any) -> None:
    expected = np.asarray(expected)
    assert tuple(actual.shape) == expected.shape, (actual.shape, expected.shape)
    assert np.array_equal(tf.cast(actual, tf.float64).numpy(), expected.astype(float)), (
        actual,
        expected,
    )


def both_ways(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What it returns in eager code, in a graph, and in a graph that runs again."""
    graph = tf.function(function)
    return [function(*arguments), graph(*arguments), graph(*arguments)]
