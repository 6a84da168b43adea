# SPDX-License-Identifier: Apache-2.0
"""Devices, compression, scales, groups and local variables as arguments of collectives, tapes and
TensorFlow 1 optimizers: cases of tensorflow_ops.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from cases import case
from tensorflow_rows import share
from tensorflow_support import both_ways, everybody, mine, same

import horovod.tensorflow as hvd

v1 = tf.compat.v1
FINER = 1.0 + 2.0**-12  # than float16 is, where it is 1
PLACES = {"device_dense": "/cpu:1", "device_sparse": "/cpu:2"}
DENSE, SPARSE = "/device:CPU:1", "/device:CPU:2"


def placed(graph: tf.Graph) -> dict[str, str]:
    """The kinds of a graph's collectives, and their devices."""
    kinds = ("Allreduce", "Allgather", "Reducescatter")
    return {
        one.type.removeprefix("Horovod"): one.device
        for one in graph.get_operations()
        if one.type.startswith("Horovod") and one.type.endswith(kinds)
    }


@case
def collectives_are_placed_where_a_program_says() -> None:
    """Seen in their graphs: there is one CPU only to run them on."""
    dense = tf.zeros([2, 2])
    slices = tf.IndexedSlices(dense, tf.constant([0, 1]), tf.constant([4, 2]))
    on_dense = {"device_dense": PLACES["device_dense"]}

    def graph_of(function: Callable[..., Any], *arguments: Any) -> tf.Graph:
        return tf.function(function).get_concrete_function(*arguments).graph

    for function, value, expected in (
        (lambda x: hvd.allreduce(x, **PLACES), dense, {"Allreduce": DENSE}),
        (lambda x: hvd.allreduce(x, **PLACES), slices, {"GroupedAllgather": SPARSE}),
        (lambda x: hvd.reducescatter(x, **on_dense), dense, {"Reducescatter": DENSE}),
        (
            lambda x: hvd.grouped_reducescatter([x], **on_dense),
            dense,
            {"GroupedReducescatter": DENSE},
        ),
        (
            lambda x: hvd.grouped_allreduce([x, slices], **PLACES),
            dense,
            {"GroupedAllreduce": DENSE, "GroupedAllgather": SPARSE},
        ),
    ):
        assert placed(graph_of(function, value)) == expected

    here = dict.fromkeys(PLACES, "/cpu:0")
    for results in both_ways(lambda x: hvd.grouped_allreduce([x, slices], **here), dense + 1):
        same(results[0], np.ones((2, 2)))
        same(results[1].indices, [0, 1] * hvd.size())


@case
def groups_are_scaled_and_compressed() -> None:
    size, rank = hvd.size(), hvd.rank()
    every = everybody((7, 2))
    tensors = [
        tf.constant(mine((7, 2), rank), tf.float64),
        tf.constant([FINER] * 7),
        tf.constant(mine((7,), rank)),
    ]
    how = {"op": hvd.Sum, "prescale_factor": 2.0, "postscale_factor": 4.0}
    for compression, seen in ((hvd.Compression.none, FINER), (hvd.Compression.fp16, 1.0)):
        expected = [8 * every.sum(0), np.full(7, 8 * size * seen), 8 * everybody((7,)).sum(0)]
        for function, rows in (
            (hvd.grouped_allreduce, slice(None)),
            (hvd.grouped_reducescatter, share(7, rank)),
        ):
            for results in both_ways(
                lambda *all, f=function, c=compression: f(all, compression=c, **how), *tensors
            ):
                for result, tensor, wanted in zip(results, tensors, expected, strict=True):
                    assert result.dtype == tensor.dtype
                    same(result, wanted[rows])


class Training:
    """A step of size 1 by a TensorFlow 1 optimizer: two dense gradients and a sparse one."""

    def __init__(self, *local: str, **arguments: Any) -> None:
        weight = hvd.rank() + 1.0
        with tf.Graph().as_default() as self.graph, v1.Session() as session:
            zeros = {"x": [2], "y": [], "table": [3, 1]}
            self.variables = {
                name: v1.get_variable(name, initializer=tf.zeros(shape))
                for name, shape in zeros.items()
            }
            x, y, table = self.variables.values()
            rows = tf.gather(table, [hvd.rank() % 3])
            parts = [tf.reduce_sum(x) * FINER, y, tf.reduce_sum(rows)]
            optimizer = hvd.DistributedOptimizer(
                v1.train.GradientDescentOptimizer(1.0), **arguments
            )
            for name in local:
                optimizer.register_local_var(self.variables[name])
            pairs = optimizer.compute_gradients(tf.add_n(parts) * weight, [x, y, table])
            self.is_sparse = isinstance(pairs[2][0], tf.IndexedSlices)
            train = optimizer.apply_gradients(pairs)
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for _ in range(arguments.get("backward_passes_per_step", 1)):
                session.run(train)
            values = session.run([x, y, table])
        self.changes = dict(zip(zeros, (-value for value in values), strict=True))

    def collectives(self, kind: str) -> list[tf.Operation]:
        return [one for one in self.graph.get_operations() if one.type == f"Horovod{kind}"]

    def check(self, fineness: float = FINER) -> None:
        """Averages all over."""
        mean = (hvd.size() + 1) / 2
        table = np.zeros((3, 1))
        for rank in range(hvd.size()):
            table[rank % 3] += (rank + 1) / hvd.size()
        expected = {"x": [mean * fineness] * 2, "y": mean, "table": table}
        for name, wanted in expected.items():
            np.testing.assert_allclose(self.changes[name], wanted, rtol=1e-6)


@case
def a_tensorflow_1_optimizer_takes_every_argument() -> None:
    is_alone = hvd.size() == 1  # it reduces nothing then

    named = Training(name="mine", device_dense="/cpu:0")
    named.check()
    assert named.is_sparse
    here = {"GroupedAllreduce": "/device:CPU:0", "GroupedAllgather": ""}
    assert placed(named.graph) == ({} if is_alone else here)
    for kind in here:
        assert all(one.name.split("/")[-1].startswith("mine") for one in named.collectives(kind))

    sparse = Training(device_sparse="/cpu:0")
    sparse.check()
    there = {"GroupedAllreduce": "", "GroupedAllgather": "/device:CPU:0"}
    assert placed(sparse.graph) == ({} if is_alone else there)

    for arguments, count in (({}, 1), ({"num_groups": 2}, 2), ({"groups": 2}, 2)):
        grouped = Training(**arguments)
        grouped.check()
        assert len(grouped.collectives("GroupedAllreduce")) == (0 if is_alone else count)

    dense = Training(sparse_as_dense=True)
    dense.check()
    assert not dense.is_sparse and not dense.collectives("GroupedAllgather")

    Training(compression=hvd.Compression.fp16).check(FINER if is_alone else 1.0)


@case
def variables_of_a_tensorflow_1_optimizer_may_be_local() -> None:
    rank, size = hvd.rank(), hvd.size()
    row = np.zeros((3, 1))
    row[rank % 3] = rank + 1
    for passes in (1, 2):
        for scale in (True, False):
            local = Training(
                "y", "table", scale_local_gradients=scale, backward_passes_per_step=passes
            )
            factor = passes / (size if scale else 1)
            mean = passes * (size + 1) / 2 * FINER
            np.testing.assert_allclose(local.changes["x"], [mean] * 2, rtol=1e-6)
            np.testing.assert_allclose(local.changes["y"], (rank + 1) * factor, rtol=1e-6)
            np.testing.assert_allclose(local.changes["table"], row * factor, rtol=1e-6)
