# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow in process sets: the first and the last rank are a set, and so are all but the
first; the world is where there is one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from cases import case, raises, run
from tensorflow_support import both_ways, mine, same

import horovod.tensorflow as hvd

sets: list[hvd.ProcessSet] = []


def own_sets() -> list[hvd.ProcessSet]:
    """Those that this rank is a member of."""
    return [one for one in sets if one.included()]


def in_each(check: Callable[[hvd.ProcessSet, list[int]], Any]) -> None:
    for one in own_sets():
        check(one, one.ranks)


@case
def every_operation_runs_in_a_set() -> None:
    rank = hvd.rank()

    def check(process_set: hvd.ProcessSet, ranks: list[int]) -> None:
        def call(function: Callable[..., Any], value: Any, **arguments: Any) -> list[Any]:
            return both_ways(lambda x: function(x, process_set=process_set, **arguments), value)

        parts = np.stack([mine((6, 2), other) for other in ranks])
        own = tf.constant(parts[ranks.index(rank)], tf.float32)
        for result in call(hvd.allreduce, own, op=hvd.Sum):
            same(result, parts.sum(0))
        for result in call(hvd.allreduce, own):
            np.testing.assert_allclose(result, parts.mean(0), rtol=1e-6)
        for results in both_ways(
            lambda x: hvd.grouped_allreduce([x, x], op=hvd.Max, process_set=process_set), own
        ):
            same(results[1], parts.max(0))
        for result in call(hvd.allgather, own):
            same(result, np.concatenate(list(parts)))
        for result in call(hvd.broadcast, own, root_rank=ranks[-1]):
            same(result, parts[-1])
        splits = [1] * len(ranks)
        for result, received in call(hvd.alltoall, own, splits=splits):
            same(result, parts[:, ranks.index(rank)])
            same(received, splits)
        short, longer = divmod(6, len(ranks))
        place = ranks.index(rank)
        begin = place * short + min(place, longer)
        rows = slice(begin, begin + short + (place < longer))
        for result in call(hvd.reducescatter, own, op=hvd.Sum):
            same(result, parts.sum(0)[rows])
        for results in both_ways(
            lambda x: hvd.grouped_reducescatter([x, x], op=hvd.Sum, process_set=process_set), own
        ):
            same(results[1], parts.sum(0)[rows])
        for results in both_ways(
            lambda x: hvd.grouped_allgather([x, x[:1]], process_set=process_set), own
        ):
            same(results[0], np.concatenate(list(parts)))
            same(results[1], parts[:, 0])

    in_each(check)


@case
def gradients_stay_within_the_set() -> None:
    def check(process_set: hvd.ProcessSet, ranks: list[int]) -> None:
        x = tf.Variable([1.0, 2.0])
        weight = float(ranks.index(hvd.rank()) + 1)
        count = len(ranks)

        def gradient(operation: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(operation(x * 1.0) * weight)
            return tape.gradient(loss, x)

        mean = (count + 1) / 2
        expected = mean if hvd.rank() == ranks[0] else 0
        for run_it in (gradient, tf.function(gradient)):
            of = process_set
            same(run_it(lambda x, of=of: hvd.allreduce(x, op=hvd.Sum, process_set=of)),
                 [mean * count] * 2)  # fmt: skip
            same(run_it(lambda x, of=of: hvd.allgather(x, process_set=of)), [mean] * 2)
            root = ranks[0]
            same(run_it(lambda x, of=of, root=root: hvd.broadcast(x, root, process_set=of)),
                 [expected] * 2)  # fmt: skip

    in_each(check)


@case
def a_tape_and_variables_and_objects_work_in_a_set() -> None:
    rank = hvd.rank()

    def check(process_set: hvd.ProcessSet, ranks: list[int]) -> None:
        x = tf.Variable([1.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * (rank + 1.0))
        tape = hvd.DistributedGradientTape(tape, process_set=process_set)
        np.testing.assert_allclose(tape.gradient(loss, x), [np.mean(ranks) + 1], rtol=1e-6)
        own = [tf.Variable(float(rank)), tf.Variable([rank])]
        hvd.broadcast_variables(own, ranks[-1], process_set=process_set)
        same(own[0], ranks[-1])
        same(own[1], [ranks[-1]])
        (value,) = hvd.broadcast_([tf.Variable(float(rank))], ranks[0], process_set=process_set)
        same(value, ranks[0])
        assert hvd.broadcast_object(rank, ranks[0], process_set=process_set) == ranks[0]
        assert hvd.allgather_object(rank, process_set=process_set) == ranks
        slices = tf.IndexedSlices(tf.ones([1, 2]) * rank, tf.constant([rank]), tf.constant([9, 2]))
        reduced = hvd.allreduce(slices, process_set=process_set)
        np.testing.assert_allclose(reduced.values[:, 0], np.array(ranks) / len(ranks), rtol=1e-6)

    in_each(check)


@case
def a_rank_outside_keeps_its_own_gradients() -> None:
    for one in sets:
        x = tf.Variable([1.0])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * (hvd.rank() + 1.0))
        gradient = hvd.DistributedGradientTape(tape, process_set=one).gradient(loss, x)
        expected = np.mean(one.ranks) if one.included() else hvd.rank()
        np.testing.assert_allclose(gradient, [expected + 1], rtol=1e-6)


@case
def a_tensorflow_1_optimizer_averages_within_a_set() -> None:
    v1 = tf.compat.v1
    for one in sets:
        mean = (np.mean(one.ranks) if one.included() else hvd.rank()) + 1
        for passes in (1, 2):
            with tf.Graph().as_default(), v1.Session() as session:
                x = v1.get_variable("x", initializer=[0.0])
                optimizer = hvd.DistributedOptimizer(
                    v1.train.GradientDescentOptimizer(1.0),
                    process_set=one,
                    backward_passes_per_step=passes,
                )
                train = optimizer.minimize(tf.reduce_sum(x * (hvd.rank() + 1.0)))
                session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
                for _ in range(passes):
                    session.run(train)
                np.testing.assert_allclose(session.run(x), [-passes * mean], rtol=1e-6)


@case
def graphs_know_the_sets() -> None:
    for one in sets:
        number = one.process_set_id
        for size, included in both_ways(
            lambda n=number: (hvd.size_op(n), hvd.process_set_included_op(n))
        ):
            assert int(size) == len(one.ranks)
            assert int(included) == one.included()
    assert int(hvd.process_set_included_op(99)) == -3
    raises(tf.errors.InvalidArgumentError, lambda: hvd.size_op(99))


@case
def who_is_no_member_gets_an_error_at_once() -> None:
    for one in sets:
        if not one.included():
            raises(
                tf.errors.InvalidArgumentError,
                lambda one=one: hvd.allreduce(tf.constant(1.0), process_set=one, name="outside"),
            )
    unknown = hvd.ProcessSet([0])
    raises(ValueError, lambda: hvd.allreduce(tf.constant(1.0), process_set=unknown))
    unknown.process_set_id = 99
    raises(ValueError, lambda: hvd.allreduce(tf.constant(1.0), process_set=unknown))


if __name__ == "__main__":
    hvd.init(process_sets="dynamic")
    last = hvd.size() - 1
    if hvd.size() > 2:
        sets.append(hvd.add_process_set([0, last]))
    others = list(range(1, hvd.size()))
    sets.append(hvd.add_process_set(others) if others else hvd.global_process_set)
    run()
    # A rank that is in fewer sets is done earlier, and must not leave before the others are.
    hvd.allreduce(tf.constant(0.0), name="end")
