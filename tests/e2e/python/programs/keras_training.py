# SPDX-License-Identifier: Apache-2.0
"""horovod.keras inside model.fit, for any number of ranks.

With TF_USE_LEGACY_KERAS=1 it runs on tf_keras. argv[1] is a folder that the ranks share.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf
from cases import case, raises, run

import horovod.keras as hvd
import horovod.tensorflow.keras as tensorflow_hvd
from horovod.common.basics import basics

keras = tf.keras
is_keras_3 = hasattr(keras, "ops")
folder = Path(sys.argv.pop(1))
BATCH = 8
FEATURES = 6


def make_model(seed: int = 0, policy: str | None = None) -> Any:
    """A model without batch statistics and dropout."""
    keras.utils.set_random_seed(seed)
    if policy is not None:
        keras.mixed_precision.set_global_policy(policy)
    model = keras.Sequential(
        [
            keras.layers.Input((FEATURES,)),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(3),
        ]
    )
    keras.mixed_precision.set_global_policy("float32")
    return model


def make_loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def data_of(rank: int, steps: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rank)
    x = random.normal(size=(steps * BATCH, FEATURES)).astype(np.float32)
    return x, random.integers(0, 3, size=steps * BATCH).astype(np.int32)


def joined_data(steps: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Batch by batch, the batches of all ranks one after another."""
    parts = [data_of(rank, steps) for rank in range(hvd.size())]
    x, y = (np.stack([part[i] for part in parts]) for i in range(2))
    x = x.reshape(hvd.size(), steps, BATCH, FEATURES).swapaxes(0, 1)
    y = y.reshape(hvd.size(), steps, BATCH).swapaxes(0, 1)
    return x.reshape(-1, FEATURES), y.reshape(-1)


def fit(model: Any, data: tuple[np.ndarray, np.ndarray], batch: int, **kwargs: Any) -> Any:
    return model.fit(*data, batch_size=batch, shuffle=False, verbose=0, **kwargs)


def trained(optimizer: Any, callbacks: Any = (), model: Any = None, **kwargs: Any) -> Any:
    """A model after an epoch on this rank's data, from weights that differ between ranks."""
    model = model or make_model(seed=hvd.rank())
    model.compile(optimizer, loss=make_loss(), metrics=["accuracy"], **kwargs)
    fit(
        model,
        data_of(hvd.rank()),
        BATCH,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), *callbacks],
    )
    return model


def alone(optimizer: Any, steps: int = 3) -> Any:
    """The same training in a single process, on the joined batches."""
    model = make_model(seed=0)
    model.compile(optimizer, loss=make_loss())
    fit(model, joined_data(steps), BATCH * hvd.size())
    return model


def check_same_everywhere(model: Any) -> None:
    everybodys = hvd.allgather_object([weight.tolist() for weight in model.get_weights()])
    assert all(weights == everybodys[0] for weights in everybodys)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def check_close(model: Any, expected: Any, tolerance: float = 1e-5) -> None:
    for actual, wanted in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)


def sgd(**kwargs: Any) -> Any:
    return keras.optimizers.SGD(0.1, momentum=0.9, **kwargs)


@case
def training_equals_the_single_process_on_the_joined_batch() -> None:
    for make in (sgd, lambda: keras.optimizers.Adam(0.01)):
        model = trained(hvd.DistributedOptimizer(make()))
        check_same_everywhere(model)
        check_close(model, alone(make()))


@case
def one_step_equals_the_single_process_to_rounding() -> None:
    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)), loss=make_loss())
    fit(model, data_of(hvd.rank(), steps=1), BATCH)
    check_close(model, alone(keras.optimizers.SGD(1.0), steps=1), tolerance=1e-6)


@case
def eager_training_and_several_steps_per_execution_are_the_same() -> None:
    expected = alone(sgd())
    for kwargs in ({"run_eagerly": True}, {"steps_per_execution": 3}, {"jit_compile": False}):
        model = trained(hvd.DistributedOptimizer(sgd()), **kwargs)
        check_same_everywhere(model)
        check_close(model, expected)


@case
def every_way_of_grouping_and_splitting_is_the_same() -> None:
    expected = alone(sgd())
    model = make_model(seed=hvd.rank())
    first_layer = model.trainable_variables[:2]
    for wrapped, own in (
        (hvd.DistributedOptimizer(sgd(), num_groups=2), None),
        (hvd.DistributedOptimizer(sgd(), groups=[first_layer]), model),
        (hvd.DistributedOptimizer(sgd(), gradient_predivide_factor=2.0), None),
        (tensorflow_hvd.DistributedOptimizer(sgd(), name="mine", sparse_as_dense=True), None),
    ):
        check_close(trained(wrapped, model=own), expected)
    model = trained(hvd.DistributedOptimizer(sgd(), compression=hvd.Compression.fp16))
    check_same_everywhere(model)
    check_close(model, expected, tolerance=1e-2)


@case
def the_gradients_of_a_step_travel_as_one_group() -> None:
    if hvd.size() == 1:
        return
    model = trained(hvd.DistributedOptimizer(sgd()))
    before = basics.counters()
    fit(model, data_of(hvd.rank()), BATCH)
    after = basics.counters()
    assert after["submitted"] - before["submitted"] == 3 * len(model.trainable_variables)
    assert after["collectives"] - before["collectives"] == 3, (before, after)
    assert after["names_bytes"] == before["names_bytes"], (before, after)


@case
def several_passes_make_one_step() -> None:
    wrapped = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=3, average_aggregated_gradients=True
    )
    for kwargs in ({}, {"run_eagerly": True}):
        wrapped = hvd.DistributedOptimizer(
            keras.optimizers.SGD(0.1), backward_passes_per_step=3, average_aggregated_gradients=True
        )
        model = trained(wrapped, **kwargs)
        assert int(wrapped._agg_helper.counter) == 0
        assert int(wrapped.iterations) == 3
        expected = make_model(seed=0)
        expected.compile(keras.optimizers.SGD(0.1), loss=make_loss())
        fit(expected, joined_data(), 3 * BATCH * hvd.size())
        check_close(model, expected)
    message = raises(
        ValueError, lambda: hvd.DistributedOptimizer(sgd(), backward_passes_per_step=0)
    )
    assert "backward_passes_per_step=0" in message


@case
def sparse_gradients_train_an_embedding() -> None:
    def make(seed: int) -> Any:
        keras.utils.set_random_seed(seed)
        layers = [keras.layers.Embedding(5, 4), keras.layers.Flatten(), keras.layers.Dense(3)]
        return keras.Sequential([keras.layers.Input((2,), dtype="int32"), *layers])

    def numbers(rank: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(rank)
        return random.integers(0, 5, (BATCH, 2)), random.integers(0, 3, BATCH)

    parts = [numbers(rank) for rank in range(hvd.size())]
    joined = tuple(np.concatenate([part[i] for part in parts]) for i in range(2))
    expected = make(0)
    expected.compile(keras.optimizers.SGD(0.5), loss=make_loss())
    fit(expected, joined, BATCH * hvd.size())
    for as_dense in (False, True):
        model = make(0)
        wrapped = hvd.DistributedOptimizer(keras.optimizers.SGD(0.5), sparse_as_dense=as_dense)
        model.compile(wrapped, loss=make_loss())
        fit(model, numbers(hvd.rank()), BATCH)
        check_close(model, expected)


@case
def an_infinity_on_one_rank_skips_the_step_on_all() -> None:
    for passes in (1, 2):
        wrapped = hvd.DistributedOptimizer(
            keras.optimizers.SGD(0.01), backward_passes_per_step=passes
        )
        model = make_model(seed=0, policy="mixed_float16")
        model.compile(wrapped, loss=make_loss())
        x, y = data_of(hvd.rank(), steps=4)
        if hvd.rank() == hvd.size() - 1:
            x[BATCH : 2 * BATCH] = np.inf  # the second of four steps
        before = model.get_weights()
        fit(model, (x[: 2 * BATCH], y[: 2 * BATCH]), BATCH)
        after_infinity = model.get_weights()
        fit(model, (x[2 * BATCH :], y[2 * BATCH :]), BATCH)
        check_same_everywhere(model)
        scale = model.optimizer.dynamic_scale if is_keras_3 else model.optimizer.loss_scale
        assert float(scale) == 2.0**14, scale
        if passes == 1:
            assert not np.array_equal(before[0], after_infinity[0])
        assert not np.array_equal(after_infinity[0], model.get_weights()[0])


@case
def a_loss_scale_optimizer_can_be_wrapped_too() -> None:
    if not is_keras_3:
        return
    scaled = keras.mixed_precision.LossScaleOptimizer(sgd(), dynamic_growth_steps=7)
    wrapped = hvd.DistributedOptimizer(scaled)
    assert type(wrapped).__name__ == "LossScaleOptimizer"
    again = wrapped.from_config(wrapped.get_config())
    assert again.get_config() == wrapped.get_config()
    check_same_everywhere(trained(wrapped))
    check_same_everywhere(trained(again))


@case
def xla_is_left_out_or_refused() -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("horovod.keras")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    model = make_model()
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
    logger.removeHandler(handler)
    assert not model.jit_compile
    assert len(lines) == is_keras_3, lines
    wrapped = hvd.DistributedOptimizer(sgd())
    message = raises(ValueError, lambda: model.compile(wrapped, "mse", jit_compile=True))
    assert "jit_compile=False" in message
    model.compile(sgd(), "mse", jit_compile=True)  # others may
    model.compile(sgd(), "mse")


@case
def a_wrapped_optimizer_is_its_base_to_the_world() -> None:
    wrapped = hvd.DistributedOptimizer(sgd(nesterov=True))
    assert isinstance(wrapped, keras.optimizers.SGD)
    assert type(wrapped).__name__ == "SGD"
    assert type(wrapped).__module__ == keras.optimizers.SGD.__module__
    config = wrapped.get_config()
    for again in (wrapped.from_config(config), type(wrapped).from_config(config)):
        assert again.get_config() == config
        assert type(again) is type(wrapped)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    scheduled = hvd.DistributedOptimizer(keras.optimizers.Adam(schedule))
    assert scheduled.get_config()["learning_rate"] is not None
    assert "twice" in raises(ValueError, lambda: hvd.DistributedOptimizer(wrapped))
    assert "cannot wrap 'sgd'" in raises(ValueError, lambda: hvd.DistributedOptimizer("sgd"))
    message = raises(
        ValueError,
        lambda: hvd.DistributedOptimizer(sgd(), gradient_predivide_factor=2.0, op=hvd.Sum),
    )
    assert "hvd.Average" in message
    raises(NotImplementedError, hvd.PartialDistributedOptimizer)


@case
def legacy_optimizers_of_tf_keras_train_too() -> None:
    if is_keras_3:
        return
    legacy = keras.optimizers.legacy
    for make in (lambda: legacy.SGD(0.1, momentum=0.9), lambda: legacy.Adam(0.01)):
        wrapped = hvd.DistributedOptimizer(make())
        assert wrapped.from_config(wrapped.get_config()).get_config() == wrapped.get_config()
        model = trained(wrapped)
        check_same_everywhere(model)
        check_close(model, alone(make()))


@case
def the_state_of_a_used_optimizer_is_kept() -> None:
    model = make_model(seed=0)
    model.compile(sgd(), loss=make_loss())
    fit(model, data_of(0), BATCH)
    wrapped = hvd.DistributedOptimizer(model.optimizer)
    assert int(wrapped.iterations) == 3
    assert len(wrapped.variables) == len(model.optimizer.variables)
    for new, old in zip(wrapped.variables, model.optimizer.variables, strict=True):
        assert np.array_equal(np.asarray(new), np.asarray(old))


@case
def a_saved_model_is_loaded_with_its_optimizer_distributed_again() -> None:
    path = folder / f"model{hvd.rank()}.keras"
    model = trained(hvd.DistributedOptimizer(sgd()))
    model.save(path)
    loaded = hvd.load_model(str(path))
    assert int(loaded.optimizer.iterations) == 3
    for new, old in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        assert np.array_equal(np.asarray(new), np.asarray(old))
    fit(loaded, data_of(hvd.rank() + 10), BATCH)
    check_same_everywhere(loaded)
    fit(model, data_of(hvd.rank() + 10), BATCH)
    check_close(loaded, model)


class Seen(keras.callbacks.Callback):
    """What a callback sees."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []
        self.logs: list[dict[str, float]] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        self.rates.append(float(np.asarray(optimizer.learning_rate)))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.logs.append(dict(logs))


@case
def metrics_are_averaged_for_those_who_follow() -> None:
    before, after = Seen(), Seen()
    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss(), metrics=["accuracy"])
    average = hvd.callbacks.MetricAverageCallback()
    own = data_of(hvd.rank())
    history = fit(
        model, own, BATCH, epochs=2, callbacks=[before, average, after], validation_data=own
    )
    everybodys = hvd.allgather_object(before.logs)
    for epoch in range(2):
        for key in ("loss", "accuracy", "val_loss", "val_accuracy"):
            mean = np.mean([logs[epoch][key] for logs in everybodys])
            np.testing.assert_allclose(after.logs[epoch][key], mean, rtol=1e-6)
            np.testing.assert_allclose(history.history[key][epoch], mean, rtol=1e-6)


@case
def the_warm_up_reaches_the_rate() -> None:
    size = hvd.size()
    for callback in (
        hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=2),
        hvd.callbacks.LRWarmupCallback(warmup_epochs=2, verbose=1),
        hvd.callbacks.LearningRateWarmupCallback(0.1, 2),
        hvd.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=2, verbose=0),
    ):
        seen = Seen()
        model = make_model(seed=0)
        model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
        fit(model, data_of(hvd.rank()), BATCH, epochs=3, callbacks=[callback, seen])
        expected = [0.1 * (1 + (size - 1) * min(1, step / 6)) / size for step in range(1, 10)]
        np.testing.assert_allclose(seen.rates, expected, rtol=1e-5)
        np.testing.assert_allclose([logs["lr"] for logs in seen.logs], expected[2::3], rtol=1e-5)
        check_same_everywhere(model)


@case
def the_schedule_sets_the_rate_and_corrects_the_momentum() -> None:
    callbacks = hvd.callbacks
    seen = Seen()
    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
    steps = [
        callbacks.LearningRateScheduleCallback(0.1, multiplier=0.5, start_epoch=1, end_epoch=2),
        callbacks.LearningRateScheduleCallback(
            initial_lr=0.1,
            multiplier=lambda epoch: epoch,
            start_epoch=2,
            staircase=False,
            momentum_correction=False,
        ),
        seen,
    ]
    fit(model, data_of(hvd.rank()), BATCH, epochs=3, callbacks=steps)
    expected = [0.1] * 3 + [0.05] * 3 + [0.2, 0.1 * (2 + 1 / 3), 0.1 * (2 + 2 / 3)]
    np.testing.assert_allclose(seen.rates, expected, rtol=1e-5)

    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
    fit(model, data_of(hvd.rank()), BATCH)
    momentum = np.asarray(model.optimizer.momentums[0])
    half = callbacks.LearningRateScheduleCallback(multiplier=0.5)
    half.set_model(model)
    half.on_train_begin()
    half.on_epoch_begin(0)
    half.on_train_batch_begin(0)
    np.testing.assert_allclose(np.asarray(model.optimizer.momentums[0]), momentum / 2, rtol=1e-6)
    assert "multiplier" in raises(ValueError, callbacks.LearningRateScheduleCallback)


@case
def values_are_reduced() -> None:
    size, rank = hvd.size(), hvd.rank()
    assert float(hvd.allreduce(float(rank))) == (size - 1) / 2
    assert int(tensorflow_hvd.allreduce(rank, op=hvd.Sum)) == size * (size - 1) // 2
    assert hvd.allgather([rank]).tolist() == list(range(size))
    assert hvd.broadcast(np.array([rank, 7]), size - 1).tolist() == [size - 1, 7]
    raises(NotImplementedError, lambda: hvd.reducescatter([1.0]))


if __name__ == "__main__":
    hvd.init()
    run()
