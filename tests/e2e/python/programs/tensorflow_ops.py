# SPDX-License-Identifier: Apache-2.0
"""The operations of horovod.tensorflow with exact data, for any number of ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_arguments
import tensorflow_curves
import tensorflow_gradients
import tensorflow_rows
import tensorflow_sessions
import tensorflow_training
from cases import case, raises, run
from tensorflow_support import FLOATS, INTEGERS, SHAPES, both_ways, everybody, mine, same

import horovod.tensorflow as hvd

OTHERS = (  # their cases come first
    tensorflow_arguments,
    tensorflow_curves,
    tensorflow_gradients,
    tensorflow_rows,
    tensorflow_sessions,
    tensorflow_training,
)


@case
def sums_are_exact_for_every_type_and_shape() -> None:
    for dtype in INTEGERS + FLOATS:
        for shape in SHAPES:
            tensor = tf.constant(mine(shape, hvd.rank()), dtype)
            result = hvd.allreduce(tensor, op=hvd.Sum)
            assert result.dtype == dtype
            same(result, everybody(shape).sum(0))


@case
def sums_in_graphs_are_exact_for_every_type() -> None:
    tensors = [tf.constant(mine((3, 5), hvd.rank()), dtype) for dtype in INTEGERS + FLOATS]
    graph = tf.function(lambda *all: [hvd.allreduce(one, op=hvd.Sum) for one in all])
    for results in (graph(*tensors), graph(*tensors)):
        for tensor, result in zip(tensors, results, strict=True):
            assert result.dtype == tensor.dtype
            same(result, everybody((3, 5)).sum(0))


@case
def other_ops_are_exact() -> None:
    every = everybody((3, 5))
    for dtype in (tf.int8, tf.int32, tf.float16, tf.float32, tf.float64):
        tensor = tf.constant(mine((3, 5), hvd.rank()), dtype)
        for op, expected in (
            (hvd.Min, every.min(0)),
            (hvd.Max, every.max(0)),
            (hvd.Product, every.prod(0)),
            (hvd.Average, every.sum(0) // hvd.size() if dtype.is_integer else every.mean(0)),
        ):
            for result in both_ways(lambda x, op=op: hvd.allreduce(x, op=op), tensor):
                np.testing.assert_allclose(
                    tf.cast(result, tf.float64).numpy(), expected, rtol=1e-3, atol=0
                )


@case
def scales_are_exact_to_double_precision() -> None:
    tensor = tf.constant([1.0, 3.0], tf.float64)
    result = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.1, postscale_factor=1e-17)
    expected = np.array([1.0, 3.0]) * 0.1 * hvd.size() * 1e-17
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-15, atol=0)


@case
def the_average_is_the_default_and_the_old_argument_works() -> None:
    tensor = tf.constant([float(hvd.rank())])
    mean = (hvd.size() - 1) / 2
    same(hvd.allreduce(tensor), [mean])
    same(hvd.allreduce(tensor, average=True), [mean])
    same(hvd.allreduce(tensor, average=False), [mean * hvd.size()])
    raises(ValueError, lambda: hvd.allreduce(tensor, average=True, op=hvd.Sum))


@case
def a_group_may_mix_types_and_shapes() -> None:
    tensors = [
        tf.constant(mine(shape, hvd.rank()), dtype)
        for shape, dtype in (((3,), tf.float32), ((2, 2), tf.int64), ((), tf.float16))
    ]
    for results in both_ways(lambda *all: hvd.grouped_allreduce(all, op=hvd.Sum), *tensors):
        for tensor, result in zip(tensors, results, strict=True):
            assert result.dtype == tensor.dtype
            same(result, everybody(tuple(tensor.shape)).sum(0))
    assert hvd.grouped_allreduce([]) == []


@case
def gathered_rows_may_differ_in_number() -> None:
    for dtype in [tf.bool, *INTEGERS, *FLOATS]:
        own = tf.cast(tf.fill([hvd.rank() + 1, 2], hvd.rank()), dtype)
        expected = np.concatenate([np.full((r + 1, 2), r) for r in range(hvd.size())])
        same(hvd.allgather(own), expected.astype(bool) if dtype == tf.bool else expected)
    for result in both_ways(hvd.allgather, tf.fill([hvd.rank(), 3], float(hvd.rank()))):
        same(result, np.concatenate([np.full((r, 3), r) for r in range(hvd.size())]))
    graph = tf.function(hvd.allgather).get_concrete_function(tf.TensorSpec([2, 3]))
    assert graph.output_shapes.as_list() == [None, 3]
    grouped = hvd.grouped_allgather([tf.constant([hvd.rank()]), tf.ones([1, 2])])
    same(grouped[0], np.arange(hvd.size()))
    same(grouped[1], np.ones((hvd.size(), 2)))


@case
def a_gathered_tensor_outlives_later_collectives() -> None:
    kept = [hvd.allgather(tf.constant([hvd.rank(), i])) for i in range(20)]
    for i, tensor in enumerate(kept):
        same(tensor, np.array([[rank, i] for rank in range(hvd.size())]).flatten())


@case
def every_rank_can_be_the_root() -> None:
    for root in range(hvd.size()):
        for dtype in [tf.bool, *INTEGERS, *FLOATS]:
            own = tf.constant(mine((3, 5), hvd.rank()), dtype)
            root_value = mine((3, 5), root)
            expected = root_value.astype(bool) if dtype == tf.bool else root_value
            same(hvd.broadcast(own, root), expected)
        for result in both_ways(lambda x, r=root: hvd.broadcast(x, r), tf.constant(hvd.rank())):
            same(result, root)


@case
def variables_take_the_values_of_the_root() -> None:
    root = hvd.size() - 1
    variables = [tf.Variable(float(hvd.rank())), tf.Variable(tf.fill([2], hvd.rank()))]
    hvd.broadcast_variables(variables, root)
    same(variables[0], root)
    same(variables[1], [root, root])

    @tf.function
    def in_a_graph() -> None:
        hvd.broadcast_variables(variables, 0)

    variables[0].assign(hvd.rank() + 5.0)
    in_a_graph()
    same(variables[0], 5)
    variables[0].assign(hvd.rank() + 6.0)
    hvd.broadcast_variables(variables, root, inplace=True)
    same(variables[0], root + 6)


@case
def ranks_with_other_variables_get_a_sentence() -> None:
    if hvd.size() == 1:
        return
    for values, how in (
        ([1.0], "1 instead of 2"),
        ([1.0, 2], "number 1 is int32 of shape () instead of float32 of shape ()"),
        ([[1.0], 2.0], "number 0 is float32 of shape (1,) instead of float32 of shape ()"),
    ):
        own = [tf.Variable(one) for one in (values if hvd.rank() == 1 else [1.0, 2.0])]
        message = raises(ValueError, functools.partial(hvd.broadcast_variables, own, 0))
        assert f"rank 1 has other variables than rank 0, the root: {how}. " in message, message


@case
def objects_travel() -> None:
    thing = {"rank": hvd.rank(), "text": "x" * hvd.rank()}
    assert hvd.broadcast_object(thing, 0) == {"rank": 0, "text": ""}
    assert [one["rank"] for one in hvd.allgather_object(thing)] == list(range(hvd.size()))


@case
def graphs_know_the_topology() -> None:
    for rank, size, local_rank, local_size in both_ways(
        lambda: (hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op())
    ):
        assert (int(rank), int(size)) == (hvd.rank(), hvd.size())
        assert (int(local_rank), int(local_size)) == (hvd.local_rank(), hvd.local_size())


@case
def gradients_are_those_of_the_original() -> None:
    own = tf.Variable([1.0, 2.0])
    weights = tf.constant([2.0, 3.0]) * (hvd.rank() + 1)
    total = sum(range(1, hvd.size() + 1))

    def gradient(operation: Callable[[tf.Tensor], tf.Tensor], weight: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(operation(own * 1.0) * weight)
        return tape.gradient(loss, own)

    for run_it in (gradient, tf.function(gradient)):
        same(run_it(lambda x: hvd.allreduce(x, op=hvd.Sum), weights), [2 * total, 3 * total])
        gathered_weight = tf.tile(tf.constant([2.0, 3.0]), [hvd.size()])
        same(run_it(hvd.allgather, gathered_weight), [2, 3])
        expected = [1, 1] if hvd.rank() == 0 else [0, 0]
        same(run_it(lambda x: hvd.broadcast(x, 0), tf.constant([1.0, 1.0])), expected)


@case
def the_tape_averages_and_keeps_the_structure() -> None:
    x = tf.Variable([1.0, 2.0])
    unused = tf.Variable(1.0)

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * (hvd.rank() + 1.0))
        distributed = hvd.DistributedGradientTape(tape)
        assert type(distributed).__name__ == "GradientTape"
        return distributed.gradient(loss, {"x": x, "unused": unused})

    mean = (hvd.size() + 1) / 2
    for gradients in both_ways(step):
        same(gradients["x"], [mean, mean])
        assert gradients["unused"] is None

    with hvd.DistributedGradientTape(tf.GradientTape(), gradient_predivide_factor=2.0) as tape:
        loss = tf.reduce_sum(x * (hvd.rank() + 1.0))
    np.testing.assert_allclose(tape.gradient(loss, x), [mean, mean], rtol=1e-6)


@case
def sparse_gradients_are_gathered_or_made_dense() -> None:
    table = tf.Variable(tf.zeros([4, 2]))

    def gradient(sparse_as_dense: bool) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, [hvd.rank() % 4, 0]))
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=sparse_as_dense)
        return tape.gradient(loss, table)

    expected = np.zeros((4, 2))
    for rank in range(hvd.size()):
        expected[rank % 4] += 1 / hvd.size()
        expected[0] += 1 / hvd.size()
    for is_dense in (False, True):
        for result in (gradient(is_dense), tf.function(gradient)(is_dense)):
            assert isinstance(result, tf.IndexedSlices) != is_dense
            np.testing.assert_allclose(tf.convert_to_tensor(result), expected, rtol=1e-6)
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))
    message = raises(NotImplementedError, lambda: hvd.allreduce(slices, op=hvd.Max))
    assert "sparse_as_dense" in message
    # Refused before the dense tensor travels, whose type has no Adasum.
    both = [slices, tf.constant([1, 2])]
    raises(NotImplementedError, lambda: hvd.grouped_allreduce(both, op=hvd.Adasum))


@case
def sparse_tensors_are_compressed() -> None:
    finer = np.float32(1.0 + 2.0**-12)  # than float16 is, where it is 1
    slices = tf.IndexedSlices(tf.fill([1, 2], finer), tf.constant([0]))
    for compression, seen in ((hvd.Compression.none, finer), (hvd.Compression.fp16, 1.0)):
        alone = hvd.allreduce(slices, op=hvd.Sum, compression=compression)
        (member,) = hvd.grouped_allreduce([slices], op=hvd.Sum, compression=compression)
        for result in (alone, member):
            assert result.values.dtype == tf.float32
            same(result.values, np.full((hvd.size(), 2), seen))


@case
def compressed_tensors_keep_their_type() -> None:
    for dtype in (tf.float32, tf.float64, tf.int32):
        tensor = tf.constant(mine((3, 5), hvd.rank()), dtype)
        result = hvd.allreduce(tensor, op=hvd.Sum, compression=hvd.Compression.fp16)
        assert result.dtype == dtype
        same(result, everybody((3, 5)).sum(0))


@case
def functions_may_close_over_tensors_of_eager_code() -> None:
    """TensorFlow names these by a number that counts what a rank has done so far."""
    for _ in range(hvd.rank()):
        tf.add(1.0, 1.0)
    small, large = tf.constant([1.0]), tf.ones([1000])

    @tf.function
    def step() -> list[tf.Tensor]:
        with tf.name_scope("scope"):
            first = hvd.allreduce(small, op=hvd.Sum)
        rows, _ = hvd.grouped_allgather([small, large])
        return [first, hvd.allreduce(large, op=hvd.Sum), rows]

    for result, length in zip(step(), (1, 1000, None), strict=True):
        same(result, np.full(length, hvd.size()) if length else np.ones(hvd.size()))


def opposite(count: int) -> list[int]:
    """Odd ranks go backwards."""
    return list(range(count))[:: 1 if hvd.rank() % 2 == 0 else -1]


@case
def sixty_four_collectives_in_opposite_order_finish() -> None:
    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        results: list[Any] = [None] * 64
        for i in opposite(64):
            # Each waits for the submission of the one before it on this rank, if ops block.
            results[i] = hvd.allreduce(x + float(i), op=hvd.Sum, name=f"opposite{i}")
        return results

    for _ in range(3):
        for i, result in enumerate(step(tf.constant([1.0, 2.0]))):
            same(result, np.array([1.0 + i, 2.0 + i]) * hvd.size())


@case
def collectives_of_constants_run_in_every_step() -> None:
    @tf.function
    def step() -> list[tf.Tensor]:
        # Graph optimisers could fold and merge other operations on each rank.
        first = tf.constant([1.0]) if hvd.rank() == 0 else tf.constant([2.0])
        second = tf.constant([1.0])
        order = {0: first, 1: second}
        results: list[Any] = [None, None]
        for i in opposite(2):
            results[i] = hvd.allreduce(order[i], op=hvd.Sum, name=f"constant{i}")
        return results

    before = hvd.mpi_ops._basics.counters()["submitted"]
    for _ in range(4):
        results = step()
    same(results[0], [2 * hvd.size() - 1])
    same(results[1], [hvd.size()])
    assert hvd.mpi_ops._basics.counters()["submitted"] - before == 8


@case
def a_result_may_be_used_by_one_rank_only() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        total = hvd.allreduce(x, op=hvd.Sum)
        return total if hvd.rank() == 0 else x

    for _ in range(3):
        same(step(tf.constant(2.0)), 2 * hvd.size() if hvd.rank() == 0 else 2)


@case
def iterations_of_a_loop_do_not_mix() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        results = tf.TensorArray(tf.float32, 40)
        for i in tf.range(40):
            results = results.write(i, hvd.allreduce(x * tf.cast(i, tf.float32), op=hvd.Sum))
        return results.stack()

    same(step(tf.constant(1.0)), np.arange(40) * hvd.size())


@case
def a_function_used_twice_in_a_graph_does_not_mix() -> None:
    inner = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    outer = tf.function(lambda x: (inner(x), inner(x * 2.0), inner(x * 3.0)))
    for _ in range(10):
        for i, result in enumerate(outer(tf.constant([1.0, 2.0]))):
            same(result, np.array([1.0, 2.0]) * (i + 1) * hvd.size())


@case
def disagreement_names_both_sides() -> None:
    if hvd.size() == 1:
        return
    failed = tf.errors.FailedPreconditionError
    shape = [2] if hvd.rank() == 0 else [3]
    message = raises(failed, lambda: hvd.allreduce(tf.zeros(shape), name="unequal"))
    assert "unequal" in message and "2" in message and "3" in message, message
    dtype = tf.float32 if hvd.rank() == 0 else tf.int32
    message = raises(failed, lambda: hvd.allreduce(tf.zeros([2], dtype), name="untyped"))
    assert "untyped" in message, message
    graph = tf.function(lambda x: hvd.broadcast(x, hvd.rank(), name="unrooted"))
    raises(failed, lambda: graph(tf.zeros([2])))
    same(hvd.allreduce(tf.constant(1.0), op=hvd.Sum), hvd.size())


@case
def what_cannot_be_done_is_said() -> None:
    message = raises(tf.errors.FailedPreconditionError, lambda: hvd.allgather(tf.constant(1.0)))
    assert "scalar" in message
    message = raises(tf.errors.InvalidArgumentError, lambda: hvd.allreduce(tf.constant("text")))
    assert "data type" in message
    raises(tf.errors.InvalidArgumentError, lambda: hvd.broadcast(tf.constant(1), hvd.size()))
    message = raises(NotImplementedError, lambda: hvd.elastic.run(lambda state: None))
    assert "no elastic jobs" in message, message


@case
def leaving_and_joining_again_works() -> None:
    kept = hvd.allgather(tf.fill([70], hvd.rank()))
    expected = np.repeat(np.arange(hvd.size()), 70)
    hvd.shutdown()
    same(kept, expected)
    message = raises(
        tf.errors.FailedPreconditionError, lambda: hvd.mpi_ops._allreduce(tf.constant(1.0))
    )
    assert "use hvd.init()" in message, message
    del kept
    hvd.init()
    same(hvd.allreduce(tf.constant(1), op=hvd.Sum), hvd.size())


if __name__ == "__main__":
    hvd.init()
    run()
