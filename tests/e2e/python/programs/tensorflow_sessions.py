# SPDX-License-Identifier: Apache-2.0
"""Graphs and sessions as in TensorFlow 1: cases of tensorflow_ops.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from cases import case, raises
from tensorflow_rows import received, rows_of, share, splits_of
from tensorflow_support import everybody, mine

import horovod.tensorflow as hvd

v1 = tf.compat.v1


@contextmanager
def session() -> Iterator[v1.Session]:
    with tf.Graph().as_default(), v1.Session() as made:
        yield made


def start(made: v1.Session) -> None:
    made.run([v1.global_variables_initializer(), v1.local_variables_initializer()])


@case
def gradients_run_on_ranks_that_do_not_need_their_collective() -> None:
    """Rank 0 needs the allreduce in the gradient of its broadcast; the others have zeros."""
    size, rank = hvd.size(), hvd.rank()
    with session() as made:
        x = tf.constant(np.full((2, 3), rank + 1.0, np.float32))
        weights = tf.ones([2, 3]) * (rank + 1.0)
        gradient = tf.gradients(hvd.broadcast(x, 0), x, weights)[0]
        expected = (size + 1) / 2 if rank == 0 else 0
        for _ in range(2):
            assert np.allclose(made.run(gradient), expected)
        gathered = tf.gradients(hvd.allgather(x), x, tf.ones([2 * size, 3]) * (rank + 1.0))[0]
        assert np.allclose(made.run(gathered), (size + 1) / 2)
        summed = tf.gradients(hvd.allreduce(x, op=hvd.Sum), x, weights)[0]
        assert np.allclose(made.run(summed), size * (size + 1) / 2)


@case
def sessions_run_collectives_of_constants_and_placeholders() -> None:
    size, rank = hvd.size(), hvd.rank()
    with session() as made:
        fed = v1.placeholder(tf.float32, [3])
        total = hvd.allreduce(fed, op=hvd.Sum)
        constant = hvd.allreduce(tf.constant(mine((3,), rank)), op=hvd.Sum)
        root = hvd.broadcast(fed, size - 1)
        rows = hvd.allgather(tf.expand_dims(fed, 0))
        topology = [hvd.rank_op(), hvd.size_op(), hvd.process_set_included_op()]
        own = np.full(3, float(rank), np.float32)
        for _ in range(2):
            results = made.run([total, constant, root, rows, *topology], {fed: own})
            assert np.allclose(results[0], size * (size - 1) / 2)
            assert np.array_equal(results[1], sum(mine((3,), r) for r in range(size)))
            assert np.allclose(results[2], size - 1)
            assert np.allclose(results[3][:, 0], np.arange(size))
            assert results[4:] == [rank, size, 1]
        with raises_in(made, tf.errors.FailedPreconditionError):
            made.run(hvd.allreduce(tf.zeros([2 + (rank if size > 1 else 0)]), name="unequal")
                     if size > 1 else hvd.allgather(tf.constant(1.0)))  # fmt: skip


@case
def sessions_run_rows_and_groups() -> None:
    size, rank = hvd.size(), hvd.rank()
    every, own = everybody((7, 2)), mine((7, 2), rank).astype(np.float32)
    integers = np.arange(rank + 1)
    sent, expected = rows_of(rank, tf.float32).numpy(), received(rank)
    with session() as made:
        fed, numbers = v1.placeholder(tf.float32, [7, 2]), v1.placeholder(tf.int64, [None])
        rows = v1.placeholder(tf.float32, [None, 2])
        both = [
            hvd.alltoall(rows, splits_of(rank)),
            hvd.grouped_allgather([fed, numbers]),
            hvd.grouped_allreduce([fed, tf.reduce_sum(numbers)], op=hvd.Sum),
            hvd.grouped_reducescatter([fed, 2 * fed], op=hvd.Max),
        ]
        scattered = hvd.reducescatter(fed, op=hvd.Sum)
        for _ in range(2):
            values = {fed: own, numbers: integers, rows: sent}
            (came, gathered, summed, largest), part = made.run([both, scattered], values)
            assert np.array_equal(came[0], expected)
            assert came[1].tolist() == [splits_of(other)[rank] for other in range(size)]
            assert np.array_equal(gathered[0], np.concatenate(list(every)))
            assert gathered[1].tolist() == [i for other in range(size) for i in range(other + 1)]
            assert np.array_equal(summed[0], every.sum(0))
            assert summed[1] == sum(i for other in range(size) for i in range(other + 1))
            assert np.array_equal(largest[0], every.max(0)[share(7, rank)])
            assert np.array_equal(largest[1], 2 * largest[0])
            assert np.array_equal(part, every.sum(0)[share(7, rank)])


@case
def objects_travel_where_a_session_is_given() -> None:
    """The original's way to do so in a graph."""
    size, rank = hvd.size(), hvd.rank()
    with session() as made:
        last = size - 1
        assert hvd.broadcast_object({"rank": rank}, last, made, "mine") == {"rank": last}
        assert hvd.broadcast_object(rank, root_rank=last, session=made) == last
        assert hvd.broadcast_object_fn(last, session=made, name="mine")(rank) == last
        assert hvd.allgather_object(rank, session=made, name="all") == list(range(size))
        tf.constant(1.0)
    with tf.Graph().as_default():
        raises(RuntimeError, lambda: hvd.broadcast_object(rank, session=made))  # it is closed
        raises(RuntimeError, lambda: hvd.allgather_object(rank, session=made))
        raises(AttributeError, lambda: hvd.broadcast_object(rank, 0, "a name, not a session"))


@contextmanager
def raises_in(made: v1.Session, kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} in {made}")


@case
def names_may_leave_out_the_scope() -> None:
    """The ranks are in different scopes, and agree by the name without it."""
    with session() as made, tf.name_scope(f"scope{hvd.rank()}"):
        own = tf.constant(1.0)
        total = hvd.allreduce(own, op=hvd.Sum, name="scoped", ignore_name_scope=True)
        assert made.run([total, *tf.gradients(total, own)]) == [hvd.size()] * 2
    graph = tf.function(
        lambda x: hvd.allreduce(x, op=hvd.Sum, name="in_function", ignore_name_scope=True)
    )
    with tf.name_scope(f"scope{hvd.rank()}"):
        assert float(graph(tf.constant(1.0))) == hvd.size()
    with session() as made, tf.name_scope(f"scope{hvd.rank()}"):
        rows = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([1, 2]))
        total = hvd.allreduce(rows, op=hvd.Sum, name="rows", ignore_name_scope=True)
        assert made.run(tf.convert_to_tensor(total)).tolist() == [[hvd.size()] * 2]


@case
def variables_of_a_graph_take_the_values_of_the_root() -> None:
    rank, size = hvd.rank(), hvd.size()
    for use_resource in (False, True):
        with session() as made:
            values = {
                dtype: v1.get_variable(
                    f"v_{dtype.name}",
                    initializer=tf.constant([rank, rank + 1], dtype),
                    use_resource=use_resource,
                )
                for dtype in (tf.float32, tf.int32, tf.float64)
            }
            done = hvd.broadcast_(list(values.values()), size - 1)
            start(made)
            for result in made.run(done):
                assert np.allclose(result, [size - 1, size])
            for result in made.run(list(values.values())):
                assert np.allclose(result, [size - 1, size])
    with session() as made:
        x = v1.get_variable("x", initializer=float(rank))
        start(made)
        made.run(hvd.broadcast_global_variables(0))
        assert made.run(x) == 0
        made.run(x.assign(rank + 5.0))
        made.run(hvd.broadcast_variables([x], size - 1, inplace=True))
        assert made.run(x) == size + 4
    raises(RuntimeError, lambda: hvd.broadcast_global_variables(0))


@case
def the_hook_broadcasts_when_the_session_is_made() -> None:
    for device, place in ((), ""), (("/cpu:0",), "/device:CPU:0"):
        with tf.Graph().as_default() as graph:
            x = v1.get_variable("x", initializer=float(hvd.rank()))
            hook = hvd.BroadcastGlobalVariablesHook(hvd.size() - 1, *device)
            with v1.train.MonitoredSession(hooks=[hook]) as made:
                assert made.run(x) == hvd.size() - 1
            operations = graph.get_operations()
            (done,) = [one for one in operations if one.type == "HorovodGroupedBroadcast"]
            assert done.device == place, done.device


@case
def a_tensorflow_1_optimizer_averages() -> None:
    size, rank = hvd.size(), hvd.rank()
    kind = v1.train.GradientDescentOptimizer
    for arguments in ({}, {"groups": 1, "use_locking": True, "gradient_predivide_factor": 2.0}):
        with session() as made:
            x = v1.get_variable("x", initializer=[float(rank)])
            optimizer = hvd.DistributedOptimizer(kind(1.0), **arguments)
            assert isinstance(optimizer, kind)
            assert optimizer._use_locking == arguments.get("use_locking", False)
            train = optimizer.minimize(tf.reduce_sum(x * (rank + 1.0)))
            start(made)
            made.run(hvd.broadcast_global_variables(0))
            made.run(train)
            assert np.allclose(made.run(x), [-(size + 1) / 2])


@case
def a_wrapped_tensorflow_1_optimizer_keeps_the_one_it_wraps() -> None:
    with session():
        plain = v1.train.GradientDescentOptimizer(1.0)
        assert hvd.DistributedOptimizer(plain)._optimizer is plain


@case
def each_run_of_a_session_joins_once() -> None:
    """What is run after a join, in a run of its own, does not run that join again."""
    size, rank = hvd.size(), hvd.rank()
    with session() as made:
        for first in range(2 * (size > 1)):
            for step in range(2):
                if rank != first:
                    own = tf.constant([step + 1.0])
                    total = hvd.allreduce(own, op=hvd.Sum, name=f"step{first}{step}")
                    assert made.run(total) == (step + 1.0) * (size - 1)
            made.run(hvd.join())
        assert made.run(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="together")) == size


@case
def a_tensorflow_1_optimizer_sums_several_passes() -> None:
    size, rank = hvd.size(), hvd.rank()
    for average in (False, True):
        with session() as made:
            x = v1.get_variable("x", initializer=[0.0, 0.0])
            unused = v1.get_variable("unused", initializer=1.0)
            step = v1.train.get_or_create_global_step()
            optimizer = hvd.DistributedOptimizer(
                v1.train.GradientDescentOptimizer(1.0),
                backward_passes_per_step=3,
                average_aggregated_gradients=average,
            )
            fed = v1.placeholder(tf.float32, [2])
            pairs = optimizer.compute_gradients(tf.reduce_sum(x * fed), [x, unused])
            assert pairs[1][0] is None
            train = optimizer.apply_gradients(pairs, global_step=step)
            start(made)
            total = np.zeros(2)
            for count in range(1, 7):
                own = np.array([rank + count, 2.0])
                total += [(size - 1) / 2 + count, 2.0]
                made.run(train, {fed: own})
                assert made.run(step) == count
                assert made.run(optimizer._agg_helper.counter) == count % 3
                if count % 3 == 0:
                    expected = total / 3 if average else total
                    np.testing.assert_allclose(made.run(x), -expected, rtol=1e-5)
    raises(
        ValueError,
        lambda: hvd.DistributedOptimizer(
            v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=0
        ),
    )


@case
def a_session_keeps_an_elastic_state() -> None:
    size, rank = hvd.size(), hvd.rank()
    with session() as made:
        x = v1.get_variable("x", initializer=float(rank + 1))
        start(made)
        state = hvd.elastic.TensorFlowState(session=made, batch=10 + rank)
        state.sync()
        assert made.run(x) == 1 and state.batch == 10
        made.run(x.assign(7.0))
        state.batch = 20
        state.restore()
        assert made.run(x) == 1 and state.batch == 10
        made.run(x.assign(7.0 + size))
        state.commit()
        made.run(x.assign(0.0))
        state.restore()
        assert made.run(x) == 7 + size
