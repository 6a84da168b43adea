# SPDX-License-Identifier: Apache-2.0
"""Tapes, local variables, several passes, batch normalisation and elastic states: cases of
tensorflow_ops.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from cases import case, raises
from tensorflow_support import both_ways, same

import horovod.tensorflow as hvd
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager


@case
def the_gradients_of_local_sources_stay_each_ranks_own() -> None:
    rank, size = hvd.rank(), hvd.size()
    shared, local = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    table = tf.Variable(tf.zeros([3, 1]))
    for scale in (True, False):

        def step(scale: bool = scale) -> Any:
            with tf.GradientTape() as tape:
                rows = tf.gather(table, [rank % 3])
                own = local * (rank + 1.0) + tf.reduce_sum(rows) * (rank + 1.0)
                loss = tf.reduce_sum(shared * (rank + 1.0)) + own
            tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scale)
            tape.register_local_source(local)
            tape.register_local_source(table)
            return tape.gradient(loss, [shared, local, table])

        for gradients in both_ways(step):
            same(gradients[0], [(size + 1) / 2] * 2)
            factor = 1 / size if scale else 1.0
            np.testing.assert_allclose(gradients[1], (rank + 1) * factor, rtol=1e-6)
            assert isinstance(gradients[2], tf.IndexedSlices)
            np.testing.assert_allclose(gradients[2].values, [[(rank + 1) * factor]], rtol=1e-6)


@case
def local_gradients_come_apart_from_the_others() -> None:
    shared, local = tf.Variable([1.0, 2.0]), tf.Variable(1.0)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = (tf.reduce_sum(shared) + local) * (hvd.rank() + 1.0)
        tape = hvd.DistributedGradientTape(tape)
        tape.register_local_source(local)
        sources = {"first": local, "then": [shared]}
        own, others = tape.get_local_and_global_gradients(loss, sources, use_generic_names=True)
        assert [source is local for source, _ in own] == [True]
        assert [source is shared for source, _ in others] == [True]
        return own[0][1], others[0][1]

    for own, other in both_ways(step):
        np.testing.assert_allclose(own, (hvd.rank() + 1) / hvd.size(), rtol=1e-6)
        same(other, [(hvd.size() + 1) / 2] * 2)


@case
def the_layers_of_a_partial_tape_stay_each_ranks_own() -> None:
    rank, size = hvd.rank(), hvd.size()
    layers = [tf.keras.layers.Dense(1, kernel_initializer="ones") for _ in range(2)]
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), *layers])
    for local in (layers[1], [layers[1]]):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.ones([1, 2]) * (rank + 1.0)))
        tape = hvd.PartialDistributedGradientTape(tape, local_layers=local)
        gradients = tape.gradient(loss, [one.value if hasattr(one, "value") and not callable(
            one.value) else one for one in model.trainable_variables])  # fmt: skip
        np.testing.assert_allclose(gradients[0], np.full((2, 1), (size + 1) / 2), rtol=1e-6)
        np.testing.assert_allclose(gradients[2], [[2 * (rank + 1) / size]], rtol=1e-6)
    raises(ValueError, lambda: hvd.PartialDistributedGradientTape(tape, local_layers=["dense"]))


@case
def a_tape_takes_every_argument() -> None:
    x, y = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    mean = (hvd.size() + 1) / 2
    for arguments in (
        {"groups": 2},
        {"num_groups": 1},
        {"groups": [[x]]},
        {"groups": [[x, y]]},
        {"groups": 0},
        {"op": hvd.Sum, "device_dense": "/cpu:0", "device_sparse": "/cpu:0"},
        {"compression": hvd.Compression.fp16},
    ):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * (hvd.rank() + 1.0)) + y * (hvd.rank() + 1.0)
        gradients = hvd.DistributedGradientTape(tape, **arguments).gradient(loss, [x, y])
        expected = mean * (hvd.size() if arguments.get("op") == hvd.Sum else 1)
        same(gradients[0], [expected, expected])
        same(gradients[1], expected)
    for wrong in ({"groups": -1}, {"groups": "two"}, {"num_groups": -1}):
        raises(ValueError, lambda wrong=wrong: hvd.DistributedGradientTape(tape, **wrong))
    wrong = {"gradient_predivide_factor": 2.0, "op": hvd.Sum}
    raises(ValueError, lambda: hvd.DistributedGradientTape(tape, **wrong))


def helpers(passes: int, average: bool) -> list[Any]:
    def reduce(gradients: Any, variables: Any) -> list[Any]:
        assert len(gradients) == len(variables)
        return [hvd.allreduce(one, op=hvd.Average) for one in gradients]

    return [
        LocalGradientAggregationHelperEager(passes, reduce, False, average),
        LocalGradientAggregationHelper(
            passes,
            reduce,
            False,
            average,
            hvd.rank(),
            LocalGradientAggregationHelper._OPTIMIZER_TYPE_KERAS,
        ),
    ]


class CountingOptimizer:
    """What a helper needs of an optimizer."""

    def __init__(self) -> None:
        self.iterations = tf.Variable(0)


@case
def helpers_sum_passes_and_apply_after_the_last() -> None:
    size, rank = hvd.size(), hvd.rank()
    for number in range(4):
        helper = helpers(2, average=True)[number % 2]
        x, local = tf.Variable([0.0, 0.0]), tf.Variable(0.0)
        helper.register_local_var(local)
        optimizer = CountingOptimizer()

        def step(
            value: tf.Tensor,
            helper: Any = helper,
            x: tf.Variable = x,
            local: tf.Variable = local,
            optimizer: Any = optimizer,
        ) -> None:
            reduced = helper.compute_gradients([value, tf.constant(6.0), None], [x, local, x])
            assert reduced[2] is None
            pairs = list(zip(reduced, [x, local, x], strict=True))

            def apply() -> None:
                x.assign_add(pairs[0][0])
                local.assign_add(pairs[1][0])
                optimizer.iterations.assign_add(1)

            helper.apply_gradients(apply, optimizer, pairs)

        run_it = tf.function(step) if number >= 2 else step
        for count in range(1, 5):
            run_it(tf.constant([rank + 1.0, count]))
            assert int(helper.counter) == count % 2
            assert int(optimizer.iterations) == count
        np.testing.assert_allclose(x, [size + 1, 1.5 + 3.5], rtol=1e-6)
        np.testing.assert_allclose(local, 12.0 / size, rtol=1e-6)


def batches(sizes: list[int]) -> list[np.ndarray]:
    """Each rank's batch: far from zero, where a mean of squares would lose digits."""
    return [
        np.random.default_rng(rank).normal(1000.0, 1.0, (rows, 4, 3)).astype(np.float32)
        for rank, rows in enumerate(sizes)
    ]


def has_run(layer: Any, x: np.ndarray, weight: tf.Tensor) -> tuple[Any, ...]:
    """Output, gradient of the inputs and of the weights, in a graph."""

    @tf.function
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tf.reduce_sum(y * weight)
        weights = [w.value if hasattr(w, "assign") and not callable(w.value) else w
                   for w in layer.trainable_weights]  # fmt: skip
        return y, *tape.gradient(loss, [x, *weights])

    return step(tf.constant(x))


@case
def batch_normalisation_sees_the_joined_batch() -> None:
    rank, size = hvd.rank(), hvd.size()
    sizes = [2 + other for other in range(size)]
    parts = batches(sizes)
    joined = np.concatenate(parts)
    weight = np.random.default_rng(77).normal(size=joined.shape).astype(np.float32)
    begin = sum(sizes[:rank])
    own = slice(begin, begin + sizes[rank])
    alone = tf.keras.layers.BatchNormalization(momentum=0.5)
    layer = hvd.SyncBatchNormalization(momentum=0.5)
    expected = has_run(alone, joined, tf.constant(weight))
    actual = has_run(layer, parts[rank], tf.constant(weight[own]))
    np.testing.assert_allclose(actual[0], expected[0][own], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(actual[1], expected[1][own], rtol=1e-2, atol=1e-3)
    for gradient, whole in zip(actual[2:], expected[2:], strict=True):
        total = hvd.allreduce(gradient, op=hvd.Sum)
        np.testing.assert_allclose(total, whole, rtol=1e-3, atol=1e-2)
    for name in ("moving_mean", "moving_variance"):
        mine, theirs = (np.asarray(getattr(one, name)) for one in (layer, alone))
        np.testing.assert_allclose(mine, theirs, rtol=1e-4)
    raises(ValueError, lambda: hvd.SyncBatchNormalization(fused=True))
    assert layer(parts[rank][:1], training=False).shape == (1, 4, 3)


@case
def masked_rows_count_for_nobody() -> None:
    rank, size = hvd.rank(), hvd.size()
    parts = [np.full((1, 2, 1), float(other), np.float32) for other in range(size)]
    mask = np.array([[True, rank % 2 == 0]])
    layer = hvd.SyncBatchNormalization(momentum=0.0, epsilon=1e-3)
    layer(tf.constant(parts[rank]), training=True, mask=tf.constant(mask))
    seen = [float(other) for other in range(size) for _ in range(2 if other % 2 == 0 else 1)]
    np.testing.assert_allclose(np.asarray(layer.moving_mean), [np.mean(seen)], rtol=1e-5)
    np.testing.assert_allclose(
        np.asarray(layer.moving_variance), [np.var(seen)], rtol=1e-5, atol=1e-6
    )


@case
def an_elastic_state_is_saved_restored_and_synchronised() -> None:
    rank = hvd.rank()
    x = tf.Variable([float(rank), 1.0])
    state = hvd.elastic.TensorFlowState([x], batch=20 + rank, epoch=10 + rank)
    state.sync()
    assert (state.batch, state.epoch) == (20, 10)
    same(x, [0, 1])
    x.assign([5.0, 5.0])
    state.batch = 21
    state.restore()
    same(x, [0, 1])
    assert state.batch == 20
    x.assign([6.0, 6.0])
    state.epoch = 11
    state.commit()
    x.assign([7.0, 7.0])
    state.restore()
    same(x, [6, 6])
    assert state.epoch == 11
    assert state._host_messages.empty()
    raises(ValueError, hvd.elastic.TensorFlowState)


@case
def optimizers_and_models_of_keras_are_served_here_too() -> None:
    size, rank = hvd.size(), hvd.rank()
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), layer])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.5), op=hvd.Sum, groups=1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.ones([1, 2]) * (rank + 1.0)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    total = size * (size + 1) / 2
    np.testing.assert_allclose(model.get_weights()[0], [[1 - 0.5 * total]] * 2, rtol=1e-6)
    model.set_weights([np.full((2, 1), float(rank))])
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, epoch=rank)
    state.sync()
    assert state.epoch == 0 and (model.get_weights()[0] == 0).all()
    model.set_weights([np.ones((2, 1))])
    state.restore()
    assert (model.get_weights()[0] == 0).all()


@case
def helpers_of_scripts_are_where_they_were() -> None:
    assert hvd._executing_eagerly() and hvd.util._executing_eagerly()
    assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks()[0] == list(range(hvd.size()))
    hvd.check_extension("horovod.tensorflow", "HOROVOD_WITH_TENSORFLOW", hvd.__file__, "mpi_lib")
    x = tf.Variable(1.0)
    assert hvd.util.refs_to_vars(hvd.util.vars_to_refs([x]))[0] is x
    assert hvd.broadcast_object_fn(0)({"rank": hvd.rank()}) == {"rank": 0}
    same(hvd.mpi_ops._allreduce(tf.constant(1.0), op=hvd.Sum), hvd.size())
