# SPDX-License-Identifier: Apache-2.0
"""alltoall, reducescatter, join and Adasum: cases of tensorflow_ops.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from cases import case, raises
from tensorflow_support import FLOATS, INTEGERS, both_ways, everybody, mine, same

import horovod.tensorflow as hvd


def share(rows: int, rank: int) -> slice:
    """Which rows a rank gets of a reducescatter."""
    short, longer = divmod(rows, hvd.size())
    begin = rank * short + min(rank, longer)
    return slice(begin, begin + short + (rank < longer))


def splits_of(rank: int) -> list[int]:
    """How many rows a rank sends to each: none to some."""
    return [(rank + 2 * other) % 3 for other in range(hvd.size())]


def rows_of(rank: int, dtype: tf.DType, spare: int = 0) -> tf.Tensor:
    total = sum(splits_of(rank)) + spare
    values = 10 * rank + np.arange(total) % 7
    return tf.cast(np.stack([values, values], axis=1), dtype)


def received(rank: int) -> np.ndarray:
    """What a rank receives of rows_of."""
    parts = []
    for other in range(hvd.size()):
        sent = splits_of(other)
        begin = sum(sent[:rank])
        parts.append(rows_of(other, tf.int64).numpy()[begin : begin + sent[rank]])
    return np.concatenate(parts)


@case
def every_rank_gets_its_rows() -> None:
    rank, size = hvd.rank(), hvd.size()
    counts = [splits_of(other)[rank] for other in range(size)]
    for dtype in [*INTEGERS, *FLOATS]:
        output, splits = hvd.alltoall(rows_of(rank, dtype), splits_of(rank))
        assert output.dtype == dtype and splits.dtype == tf.int32
        same(output, received(rank))
        same(splits, counts)
    with_spare = rows_of(rank, tf.float32, spare=2)  # nobody gets the last two
    for output, splits in both_ways(lambda x: hvd.alltoall(x, splits_of(rank)), with_spare):
        same(output, received(rank))
        same(splits, counts)
    equal = tf.constant([[rank, other] for other in range(size) for _ in range(2)])
    for output in both_ways(hvd.alltoall, equal):
        same(output, [[other, rank] for other in range(size) for _ in range(2)])
    same(hvd.alltoall(tf.zeros([0, 3])), np.zeros((0, 3)))
    graph = tf.function(hvd.alltoall).get_concrete_function(tf.TensorSpec([2, 3]))
    assert graph.output_shapes.as_list() == [None, 3]


@case
def bad_splits_are_invalid() -> None:
    size = hvd.size()
    invalid = tf.errors.InvalidArgumentError
    rows = tf.zeros([2 * size, 2])
    for splits in ([1] * (size + 1), [3] * size, [-1] * size, [[1] * size]):
        raises(invalid, lambda splits=splits: hvd.alltoall(rows, splits))
    raises(invalid, lambda: hvd.alltoall(rows, tf.ones([size], tf.int64)))
    if size > 1:
        raises(invalid, lambda: hvd.alltoall(tf.zeros([size + 1])))
    message = raises(tf.errors.FailedPreconditionError, lambda: hvd.alltoall(tf.constant(1.0)))
    assert "scalar" in message, message
    same(hvd.alltoall(tf.zeros([size])), np.zeros(size))


@case
def rows_are_reduced_and_scattered() -> None:
    rank, size = hvd.rank(), hvd.size()
    for rows in (0, 1, 7, 2 * size):
        every, own = everybody((rows, 3)), share(rows, rank)
        for dtype in (tf.int32, tf.int64, tf.float16, tf.float32, tf.float64):
            tensor = tf.constant(mine((rows, 3), rank), dtype)
            result = hvd.reducescatter(tensor, op=hvd.Sum)
            assert result.dtype == dtype
            same(result, every.sum(0)[own])
    every, own = everybody((7, 3)), share(7, rank)
    tensor = tf.constant(mine((7, 3), rank), tf.float32)
    for op, expected in (
        (hvd.Average, every.mean(0)),
        (hvd.Min, every.min(0)),
        (hvd.Max, every.max(0)),
        (hvd.Product, every.prod(0)),
    ):
        for result in both_ways(lambda x, op=op: hvd.reducescatter(x, op=op), tensor):
            np.testing.assert_allclose(result, expected[own], rtol=1e-6)
    same(hvd.reducescatter(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=4.0),
         8 * every.sum(0)[own])  # fmt: skip
    compressed = hvd.reducescatter(tensor, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert compressed.dtype == tf.float32
    same(compressed, every.sum(0)[own])
    tensors = [tensor, tf.range(5)]
    for results in both_ways(lambda *all: hvd.grouped_reducescatter(all, op=hvd.Sum), *tensors):
        same(results[0], every.sum(0)[own])
        same(results[1], np.arange(5)[share(5, rank)] * size)
    invalid = tf.errors.InvalidArgumentError
    message = raises(invalid, lambda: hvd.reducescatter(tf.constant(1.0)))
    assert "scalar" in message, message


def adasum(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """Of a number of vectors that is a power of two, in float64 (Maleki et al., 2020)."""
    if len(vectors) == 1:
        return vectors[0].astype(np.float64)
    half = len(vectors) // 2
    a, b = adasum(vectors[:half]), adasum(vectors[half:])
    dot, norm_a, norm_b = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return (1 - dot / (2 * norm_a)) * a + (1 - dot / (2 * norm_b)) * b


def vector(rank: int, seed: int) -> np.ndarray:
    return np.random.default_rng(100 * seed + rank).normal(size=50)


@case
def adasum_is_that_of_the_paper() -> None:
    size = hvd.size()
    if size & (size - 1):
        return  # the tree of other sizes is the library's own affair
    tensors = [tf.constant(vector(hvd.rank(), seed), tf.float32) for seed in range(3)]
    for results in both_ways(lambda *all: hvd.grouped_allreduce(all, op=hvd.Adasum), *tensors):
        for seed, result in enumerate(results):
            expected = adasum([vector(rank, seed) for rank in range(size)])
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    single = hvd.allreduce(tensors[0], op=hvd.Adasum)
    np.testing.assert_allclose(single, adasum([vector(r, 0) for r in range(size)]), rtol=1e-4)
    raises(tf.errors.InvalidArgumentError, lambda: hvd.allreduce(tf.range(4), op=hvd.Adasum))


@case
def adasum_combines_the_steps_of_a_tensorflow_1_optimizer() -> None:
    size = hvd.size()
    if size & (size - 1):
        return
    start = np.full(50, 3.0, np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.get_variable("x", initializer=start)
        optimizer = hvd.DistributedOptimizer(
            tf.compat.v1.train.GradientDescentOptimizer(0.1),
            op=hvd.Adasum,
            backward_passes_per_step=2,
        )
        train = optimizer.minimize(tf.reduce_sum(x * vector(hvd.rank(), 0)))
        session.run(
            [
                tf.compat.v1.global_variables_initializer(),
                tf.compat.v1.local_variables_initializer(),
            ]
        )
        session.run(train)
        np.testing.assert_allclose(session.run(x), start - 0.1 * vector(hvd.rank(), 0), rtol=1e-5)
        session.run(train)
        deltas = [-0.2 * vector(rank, 0) for rank in range(size)]
        expected = start + adasum(deltas) if size > 1 else start + deltas[0]
        np.testing.assert_allclose(session.run(x), expected, rtol=1e-4, atol=1e-5)


@case
def ranks_that_have_joined_contribute_nothing() -> None:
    rank, size = hvd.rank(), hvd.size()
    # Rank r has r + 1 batches.
    for step in range(rank + 1):
        result = hvd.allreduce(tf.constant([1.0, 2.0]), op=hvd.Sum, name=f"step{step}")
        present = size - step
        same(result, [present, 2.0 * present])
        mean = hvd.allreduce(tf.constant(4.0), name=f"mean{step}")
        np.testing.assert_allclose(mean, 4.0 * present / size, rtol=1e-6)
    last = hvd.join()
    assert last.dtype == tf.int32 and last.shape == ()
    assert len(set(hvd.allgather_object(int(last)))) == 1
    assert 0 <= int(last) < size

    @tf.function
    def graph(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        total = hvd.allreduce(x, op=hvd.Sum)
        return total, hvd.join()

    total, last = graph(tf.constant(1.0))
    same(total, size)
    assert 0 <= int(last) < size


@case
def what_needs_all_ranks_fails_while_one_has_joined() -> None:
    if hvd.size() == 1:
        return
    hvd.join()
    if hvd.rank() == 0:
        hvd.join()
        return
    for operation in (
        lambda: hvd.allgather(tf.ones([2]), name="joined_gather"),
        lambda: hvd.broadcast(tf.ones([2]), 1, name="joined_broadcast"),
        lambda: hvd.alltoall(tf.ones([hvd.size()]), name="joined_alltoall"),
        lambda: hvd.reducescatter(tf.ones([4]), name="joined_reducescatter"),
    ):
        raises(tf.errors.FailedPreconditionError, operation)
    hvd.join()
