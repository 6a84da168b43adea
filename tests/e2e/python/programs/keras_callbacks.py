# SPDX-License-Identifier: Apache-2.0
"""The callbacks of horovod.keras: cases of keras_training.py."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
from cases import case, raises
from keras_support import (
    BATCH,
    check_same_everywhere,
    data_of,
    fit,
    is_keras_3,
    keras,
    make_loss,
    make_model,
    sgd,
)

import horovod.keras as hvd


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
        callbacks.LearningRateScheduleCallback(0.1, 0.5, end_epoch=2),
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

    seen = Seen()
    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
    decay = callbacks.LearningRateScheduleCallback(0.1, 0.5, start_epoch=1, staircase=False)
    fit(model, data_of(hvd.rank()), BATCH, epochs=2, callbacks=[decay, seen])
    np.testing.assert_allclose(seen.rates[2:], 0.1 * 0.5 ** np.array([0, 0, 1 / 3, 2 / 3]), 1e-5)

    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
    fit(model, data_of(hvd.rank()), BATCH)
    momentum = np.asarray(model.optimizer.momentums[0])
    half = callbacks.LearningRateScheduleCallback(multiplier=0.5)
    half.set_model(model)
    half.on_train_begin()
    half.on_epoch_begin(1)
    half.on_train_batch_begin(0)
    np.testing.assert_allclose(np.asarray(model.optimizer.momentums[0]), momentum / 2, rtol=1e-6)
    assert "multiplier" in raises(ValueError, callbacks.LearningRateScheduleCallback)


@case
def callbacks_say_what_they_cannot() -> None:
    other = "tf_keras" if is_keras_3 else "keras"
    if importlib.util.find_spec(other) is not None:
        model = importlib.import_module(other).Sequential()
        average = hvd.callbacks.MetricAverageCallback()
        message = raises(ValueError, lambda: average.set_model(model))
        assert "TF_USE_LEGACY_KERAS" in message and f"model is of {other}" in message, message
    nowhere = hvd.callbacks.BestModelCheckpoint()
    nowhere.set_model(make_model())
    assert "filepath" in raises(ValueError, nowhere.on_train_begin)
