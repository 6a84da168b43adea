# SPDX-License-Identifier: Apache-2.0
"""Values, variables and objects that ranks reduce or share, by the functions of horovod.keras and
horovod.tensorflow.keras: cases of keras_training.py."""

from __future__ import annotations

import numpy as np
from cases import case, raises
from keras_support import backend, fronts, is_keras_3, variable_of

import horovod.keras as hvd

FINER = np.float32(1.0 + 2.0**-12)  # than float16 is, where it is 1


@case
def values_are_reduced() -> None:
    size, rank = hvd.size(), hvd.rank()
    mean = (size - 1) / 2
    for front in fronts():
        assert float(front.allreduce(float(rank))) == mean
        assert float(front.allreduce(float(rank), "mine", True)) == mean
        assert float(front.allreduce(float(rank), average=False)) == mean * size
        assert int(front.allreduce(rank, op=hvd.Sum)) == mean * size
        assert int(front.allreduce(rank, op=hvd.Max)) == size - 1
        scaled = front.allreduce(
            [rank, 1.0], prescale_factor=2.0, postscale_factor=4.0, average=False, name="scaled"
        )
        assert np.asarray(scaled).tolist() == [8 * mean * size, 8 * size]
        for compression, seen in ((front.Compression.none, FINER), (front.Compression.fp16, 1.0)):
            result = np.asarray(front.allreduce(FINER, op=hvd.Max, compression=compression))
            assert result.dtype == np.float32 and result == seen
        assert np.asarray(front.allgather([rank], name="mine")).tolist() == list(range(size))
        root = front.broadcast(np.array([rank, 7]), size - 1, name="mine")
        assert np.asarray(root).tolist() == [size - 1, 7]
        # On TensorFlow a value stays a tensor, as in the original; on PyTorch it is an array.
        results = (root, front.allreduce(1.0), front.allgather([1.0]))
        assert [hasattr(one, "numpy") for one in results] == [backend == "tensorflow"] * 3


@case
def values_are_reduced_and_scattered() -> None:
    rows = np.arange(2 * hvd.size(), dtype=np.float32)
    own = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    for front in fronts():
        averaged = front.reducescatter(rows)
        assert np.asarray(averaged).tolist() == rows[own].tolist()
        assert hasattr(averaged, "numpy") == (backend == "tensorflow")
        summed = front.reducescatter(rows, name="mine", op=hvd.Sum)
        assert np.asarray(summed).tolist() == (rows * hvd.size())[own].tolist()


@case
def variables_and_objects_are_those_of_the_root() -> None:
    size, rank = hvd.size(), hvd.rank()
    root, world = size - 1, hvd.global_process_set
    for front in fronts():
        variables = [variable_of(rank), variable_of([rank, 1.0])]
        for arguments in ({}, {"process_set": world}, {"inplace": True}, {"inplace": False}):
            for one in variables:
                one.assign(one * 0.0 + float(rank))
            front.broadcast_variables(variables, root, **arguments)
            assert [np.asarray(one).tolist() for one in variables] == [root, [root, root]]
        mine = {"rank": rank}
        assert front.broadcast_object(mine, root, None, "mine", world) == {"rank": root}
        assert front.broadcast_object(mine, session=None, name="mine") == {"rank": 0}
        everybodys = front.allgather_object(mine, session=None, name="all", process_set=world)
        assert everybodys == [{"rank": other} for other in range(size)]
        if backend == "torch":
            raises(ValueError, lambda front=front: front.broadcast_object(rank, session="any"))
            raises(ValueError, lambda front=front: front.allgather_object(rank, session="any"))
        message = raises(RuntimeError, lambda front=front: front.broadcast_global_variables(0))
        assert "hvd.broadcast_variables(" in message, message


@case
def variables_of_a_graph_of_tensorflow_1_are_those_of_the_root() -> None:
    if backend != "tensorflow":
        return
    import tensorflow as tf

    v1, root = tf.compat.v1, hvd.size() - 1
    for front in fronts():
        with tf.Graph().as_default():
            variable = v1.get_variable("variable", initializer=float(hvd.rank()))
            with v1.Session() as session:
                session.run(variable.initializer)
                front.broadcast_global_variables(root)
                assert session.run(variable) == root
                session.run(variable.assign(hvd.rank() + 1.0))
                front.broadcast_variables([variable], root)
                assert session.run(variable) == hvd.size()
                assert front.allreduce(1.0, op=hvd.Sum) == hvd.size()
            if is_keras_3:  # it makes no session
                message = raises(RuntimeError, lambda front=front: front.allreduce(1.0))
                assert "tf.compat.v1.Session()" in message, message
