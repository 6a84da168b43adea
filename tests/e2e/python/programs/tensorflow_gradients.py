# SPDX-License-Identifier: Apache-2.0
"""The gradients of rows and groups, in eager code, graphs and sessions: cases of
tensorflow_ops.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from cases import case
from tensorflow_rows import rows_of, share, splits_of
from tensorflow_support import both_ways

import horovod.tensorflow as hvd


@dataclass(frozen=True, repr=False)
class Derivative:
    """An operation, this rank's inputs and weights of its results, and the gradients of the inputs
    that follow from all ranks' weights: rank r has r + 1 times those of rank 0."""

    operation: Callable[[Sequence[tf.Tensor]], Sequence[tf.Tensor]]
    inputs: list[np.ndarray]
    weights: list[np.ndarray]
    expected: list[np.ndarray]

    def loss(self, tensors: Sequence[tf.Tensor]) -> tf.Tensor:
        results = self.operation(tensors)
        pairs = zip(results, self.weights, strict=True)
        return tf.add_n([tf.reduce_sum(one * weight) for one, weight in pairs])

    def gradients(self, *tensors: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = self.loss(tensors)
        return tape.gradient(loss, tensors)

    def check(self, gradients: Sequence[np.ndarray]) -> None:
        for actual, wanted in zip(gradients, self.expected, strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=1e-6)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def of_alltoall() -> Derivative:
    """Row by row the weight of the rank it went to; 0 of none."""
    rank, size = hvd.rank(), hvd.size()
    splits = splits_of(rank)
    weights = np.repeat([*range(1, size + 1), 0], [*splits, 2])
    return Derivative(
        lambda all: [hvd.alltoall(all[0], splits)[0]],
        [rows_of(rank, tf.float32, spare=2).numpy()],
        [np.float32(rank + 1)],
        [weights[:, None] * ones(2)],
    )


def owners(rows: int) -> np.ndarray:
    """Row by row the weight of the rank that gets it of a reducescatter."""
    shares = [share(rows, rank) for rank in range(hvd.size())]
    return np.repeat(np.arange(hvd.size()) + 1.0, [one.stop - one.start for one in shares])


def of_reducescatter(op: int) -> list[Derivative]:
    own = np.float32(hvd.rank() + 1)
    factor = hvd.size() if op == hvd.Sum else 1
    scale = {"op": op, "postscale_factor": 2.0}
    return [
        Derivative(
            lambda all: [hvd.reducescatter(all[0], **scale)],
            [ones(5)],
            [own],
            [owners(5) * factor * 2],
        ),
        Derivative(
            lambda all: hvd.grouped_reducescatter(all, prescale_factor=3.0, **scale),
            [ones(5), ones(7, 2)],
            [own, 10 * own],
            [owners(5) * factor * 6, owners(7)[:, None] * ones(2) * factor * 60],
        ),
    ]


def of_grouped_allreduce(op: int) -> Derivative:
    own = np.float32(hvd.rank() + 1)
    total = hvd.size() * (hvd.size() + 1) / 2 / (1 if op == hvd.Sum else hvd.size())
    first = np.float32([2, 3])
    return Derivative(
        lambda all: hvd.grouped_allreduce(all, op=op, prescale_factor=4.0, postscale_factor=0.5),
        [ones(2), ones(3, 1)],
        [own * first, own * 7],
        [2 * total * first, 14 * total * ones(3, 1)],
    )


def of_grouped_allgather() -> Derivative:
    """An average of what the ranks say about a rank's own rows, of which it has its number + 1."""
    rank, size = hvd.rank(), hvd.size()
    own, mean = np.float32(rank + 1), (size + 1) / 2
    begin = rank * (rank + 1) // 2
    places = np.arange(size * (size + 1) // 2, dtype=np.float32)[:, None] * ones(2)
    pairs = np.arange(2 * size, dtype=np.float32)
    return Derivative(
        hvd.grouped_allgather,
        [ones(rank + 1, 2), ones(2)],
        [own * places, own * pairs],
        [mean * places[begin : begin + rank + 1], mean * pairs[2 * rank : 2 * rank + 2]],
    )


def derivatives() -> list[Derivative]:
    return [
        of_alltoall(),
        *of_reducescatter(hvd.Sum),
        *of_reducescatter(hvd.Average),
        of_grouped_allreduce(hvd.Sum),
        of_grouped_allreduce(hvd.Average),
        of_grouped_allgather(),
    ]


@case
def gradients_of_rows_and_groups_are_those_of_the_original() -> None:
    for one in derivatives():
        for results in both_ways(one.gradients, *map(tf.constant, one.inputs)):
            one.check(results)


@case
def gradients_of_rows_and_groups_run_in_sessions() -> None:
    for one in derivatives():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            fed = [tf.compat.v1.placeholder(tf.float32, own.shape) for own in one.inputs]
            gradients = tf.gradients(one.loss(fed), fed)
            for _ in range(2):
                one.check(session.run(gradients, dict(zip(fed, one.inputs, strict=True))))
