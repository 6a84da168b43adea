# SPDX-License-Identifier: Apache-2.0
"""The arguments of optimizers, callbacks and load_model, of horovod.keras and of
horovod.tensorflow.keras: cases of keras_training.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras_values  # noqa: F401  (its cases)
import numpy as np
from cases import case, raises
from keras_support import (
    BATCH,
    alone,
    alone_with_sgd,
    backend,
    check_close,
    check_same_everywhere,
    data_of,
    fit,
    fronts,
    is_keras_3,
    keras,
    make_loss,
    make_model,
    scratch,
    sgd,
    tensor_of,
    trained,
    variable_of,
)
from keras_values import FINER

import horovod.keras as hvd


def change_by(optimizer: Any, gradient: Any) -> np.ndarray:
    """What a step of size 1 takes off a variable."""
    variable = variable_of(np.zeros_like(gradient))
    optimizer.apply_gradients([(tensor_of(gradient), variable)])
    return -np.asarray(variable)


@case
def gradients_are_reduced_by_every_op() -> None:
    every = np.array([[rank + 1.0, -rank, 2.0] for rank in range(hvd.size())])
    for front in fronts():
        for op, expected in (
            (hvd.Average, every.mean(0)),
            (hvd.Sum, every.sum(0)),
            (hvd.Min, every.min(0)),
            (hvd.Max, every.max(0)),
            (hvd.Product, every.prod(0)),
        ):
            wrapped = front.DistributedOptimizer(keras.optimizers.SGD(1.0), op=op)
            change = change_by(wrapped, every[hvd.rank()])
            np.testing.assert_allclose(change, expected, rtol=1e-6)


def add_halves() -> list[hvd.ProcessSet]:
    """The first half of the ranks and the others; the world where there is one rank."""
    half = hvd.size() // 2
    halves = [list(range(half)), list(range(half, hvd.size()))]
    return [hvd.add_process_set(one) for one in halves if half] or [hvd.global_process_set]


@case
def ranks_of_a_process_set_train_as_one_process() -> None:
    halves = add_halves()
    (own,) = [one for one in halves if one.included()]
    model = trained(hvd.DistributedOptimizer(sgd(), process_set=own))
    check_close(model, alone(sgd(), ranks=own.ranks))
    for front in fronts():
        for one in halves:
            wrapped = front.DistributedOptimizer(keras.optimizers.SGD(1.0), process_set=one)
            # A rank outside keeps its own gradients.
            mean = np.mean(one.ranks) if one.included() else hvd.rank()
            np.testing.assert_allclose(change_by(wrapped, [hvd.rank() + 1.0]), [mean + 1.0])
        variable = variable_of(hvd.rank())
        front.broadcast_variables([variable], own.ranks[-1], process_set=own)
        assert float(np.asarray(variable)) == own.ranks[-1]
        assert front.allgather_object(hvd.rank(), process_set=own) == own.ranks
        assert front.broadcast_object(hvd.rank(), own.ranks[-1], process_set=own) == own.ranks[-1]
    if hvd.size() > 1:
        assert all(map(hvd.remove_process_set, halves))


def places_of(optimizer: Any) -> dict[str, str]:
    """The collectives of a step with a dense and a sparse gradient, and their devices."""
    import tensorflow as tf

    variables = [variable_of(np.zeros((3, 2)), name) for name in ("dense", "table")]
    optimizer.build(variables)

    @tf.function
    def step() -> None:
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([3, 2]))
        optimizer.apply_gradients(list(zip([tf.ones([3, 2]), slices], variables, strict=True)))

    operations = step.get_concrete_function().graph.get_operations()
    return {one.type: one.device for one in operations if one.type.startswith("HorovodGrouped")}


@case
def operations_of_an_optimizer_are_placed_where_a_program_says() -> None:
    if backend != "tensorflow":
        gradient = np.full(3, hvd.rank() + 1.0)
        for name in ("cpu", "/cpu:0", "/device:CPU:0"):
            there = hvd.DistributedOptimizer(
                keras.optimizers.SGD(1.0), op=hvd.Max, device_dense=name
            )
            assert change_by(there, gradient).tolist() == [hvd.size()] * 3
        nowhere = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), device_dense="meta")
        if hvd.size() > 1:  # tensors of this device have no values
            raises(NotImplementedError, lambda: change_by(nowhere, gradient))
        for wrong in ({"device_dense": "nowhere:0"}, {"device_sparse": "cpu"}):
            raises(
                (RuntimeError, ValueError),
                lambda wrong=wrong: hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **wrong),
            )
        return
    expected = {
        "HorovodGroupedAllreduce": "/device:CPU:1",
        "HorovodGroupedAllgather": "/device:CPU:2",
    }
    for front in fronts():
        wrapped = front.DistributedOptimizer(
            keras.optimizers.SGD(1.0), device_dense="/cpu:1", device_sparse="/cpu:2"
        )
        places = places_of(wrapped)
        assert places == ({} if hvd.size() == 1 else expected), places


@case
def the_front_of_tf_keras_trains_too() -> None:
    """With its arguments in their order, which horovod.keras has another one of."""
    for front in fronts()[1:]:
        assert all(hasattr(front, name) for name in front.__all__)
        wrapped = front.DistributedOptimizer(
            sgd(), "mine", "", "", front.Compression.none, True, 2.0, front.Average, 1, False, 0, 2,
            front.global_process_set, True,
        )  # fmt: skip
        logs = front.callbacks.MetricAverageCallback()
        model = trained(wrapped, [front.callbacks.BroadcastGlobalVariablesCallback(0), logs])
        check_same_everywhere(model)
        check_close(model, alone_with_sgd())
        path = scratch / f"front{hvd.size()}{hvd.rank()}.keras"
        model.save(path)
        loaded = front.load_model(str(path))
        assert int(loaded.optimizer.iterations) == 3
        state = front.elastic.KerasState(loaded, batch=hvd.rank())
        state.sync()
        assert state.batch == 0


class OwnSGD(keras.optimizers.SGD):
    pass


class OwnDense(keras.layers.Dense):
    pass


@case
def a_saved_model_may_have_classes_of_its_own() -> None:
    for front in fronts():
        path = str(scratch / f"own{hvd.size()}{hvd.rank()}.keras")
        model = keras.Sequential([keras.layers.Input((2,)), OwnDense(1)])
        model.compile(front.DistributedOptimizer(OwnSGD(1.0)), "mse")
        model.save(path)
        raises(TypeError, lambda path=path, front=front: front.load_model(path))
        known = {"OwnDense": OwnDense}
        for compression, seen in ((front.Compression.none, FINER), (front.Compression.fp16, 1.0)):
            loaded = front.load_model(path, [OwnSGD], known, compression)
            assert isinstance(loaded.optimizer, OwnSGD)
            assert isinstance(loaded.layers[-1], OwnDense)
            before = loaded.get_weights()
            gradients = [tensor_of(np.full_like(one, FINER)) for one in before]
            pairs = zip(gradients, loaded.trainable_variables, strict=True)
            loaded.optimizer.apply_gradients(list(pairs))
            for new, old in zip(loaded.get_weights(), before, strict=True):
                expected = old - (FINER if hvd.size() == 1 else seen)
                np.testing.assert_allclose(new, expected, atol=1e-6)


@case
def a_saved_model_may_have_a_legacy_optimizer() -> None:
    if is_keras_3:
        for front in fronts():
            message = raises(
                ValueError, lambda front=front: front.load_model("any", legacy_opts=True)
            )
            assert "TF_USE_LEGACY_KERAS" in message, message
        return
    legacy = keras.optimizers.legacy.SGD
    model = trained(hvd.DistributedOptimizer(legacy(0.1, momentum=0.9)))
    path = str(scratch / f"legacy{hvd.size()}{hvd.rank()}.h5")
    model.save(path)
    for options in ({}, {"legacy_opts": True}):
        loaded = hvd.load_model(path, **options)
        assert isinstance(loaded.optimizer, legacy)
        assert int(loaded.optimizer.iterations) == 3
        fit(loaded, data_of(hvd.rank() + 10), BATCH)
        check_same_everywhere(loaded)
    fit(model, data_of(hvd.rank() + 10), BATCH)
    check_close(loaded, model)


def compiled(seed: int) -> Any:
    model = make_model(seed)
    model.compile(sgd(), make_loss())
    return model


@case
def the_broadcast_leaves_local_variables_out() -> None:
    root, device = hvd.size() - 1, "cpu:0" if backend == "torch" else "/cpu:0"
    expected = make_model(seed=root).get_weights()
    for front in fronts():
        model = compiled(seed=hvd.rank())
        own = model.get_weights()
        callback = front.callbacks.BroadcastGlobalVariablesCallback(
            root, device, local_variables=model.layers[-1].trainable_variables
        )
        callback.set_model(model)
        callback.on_train_begin()
        for actual, wanted in zip(model.get_weights(), expected[:2] + own[2:], strict=True):
            assert np.array_equal(actual, wanted)


@case
def callbacks_work_on_the_device_that_is_named() -> None:
    """They try to where there is none of this name."""
    callbacks = hvd.callbacks
    model = compiled(seed=0)
    average = callbacks.MetricAverageCallback(device="cpu:0" if backend == "torch" else "/cpu:0")
    average.set_model(model)
    logs = {"loss": float(hvd.rank())}
    average.on_epoch_end(0, logs)
    assert logs == {"loss": (hvd.size() - 1) / 2}

    error = RuntimeError if backend == "torch" else ValueError
    elsewhere = callbacks.MetricAverageCallback(device="nowhere:0")
    raises(error, lambda: elsewhere.on_epoch_end(0, {"loss": 1.0}))
    broadcast = callbacks.BroadcastGlobalVariablesCallback(0, device="nowhere:0")
    broadcast.set_model(model)
    raises(error, broadcast.on_train_begin)
    if backend == "torch":
        without_values = callbacks.BroadcastGlobalVariablesCallback(0, device="meta")
        without_values.set_model(model)
        raises(NotImplementedError, without_values.on_train_begin)


def saved_by(path: Path, **arguments: Any) -> list[list[np.ndarray]]:
    """The weights after each of two epochs whose losses are 1 and 2, of which a checkpoint saved
    the best."""
    checkpoint = hvd.callbacks.BestModelCheckpoint(monitor="loss", **arguments)
    checkpoint.filepath = path
    model = compiled(seed=0)
    checkpoint.set_model(model)
    checkpoint.on_train_begin()
    weights = []
    for epoch in range(2):
        model.set_weights([one + 1.0 for one in model.get_weights()])
        weights.append(model.get_weights())
        checkpoint.on_epoch_begin(epoch)
        checkpoint.on_train_batch_end(0, {"loss": epoch + 1.0})
        checkpoint.on_epoch_end(epoch, {"loss": epoch + 1.0})
    return weights


@case
def the_best_model_is_saved_as_a_program_says() -> None:
    if hvd.rank() > 0:
        return
    for mode, best in (("min", 0), ("max", 1), ("auto", 0)):
        path = scratch / f"{mode}{hvd.size()}.weights.h5"
        weights = saved_by(path, save_weights_only=True, mode=mode)
        model = make_model(seed=1)
        model.load_weights(str(path))
        for actual, wanted in zip(model.get_weights(), weights[best], strict=True):
            assert np.array_equal(actual, wanted), mode
    for count in (2, 3):  # batches: there are two in all
        path = scratch / f"every{count}{hvd.size()}.keras"
        saved_by(path, save_freq=count)
        assert path.exists() == (count == 2)
    assert keras.models.load_model(str(scratch / f"every2{hvd.size()}.keras")).layers
