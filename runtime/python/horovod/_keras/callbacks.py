# SPDX-License-Identifier: Apache-2.0
"""The callbacks of horovod.keras and horovod.tensorflow.keras."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from horovod._keras.compilation import say_once
from horovod._keras.values import average_numbers
from horovod.common.basics import basics
from horovod.tensorflow.functions import allgather_object, broadcast_variables
from horovod.tensorflow.util import native_variable

Logs = dict[str, Any] | None
Multiplier = Callable[[float], float]


def _inner(optimizer: Any) -> Any:
    """The optimizer inside a loss scale optimizer."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _variables(optimizer: Any) -> list[Any]:
    """All there are: tf_keras does not count the learning rate and other settings."""
    variables = optimizer.variables
    inner = _inner(optimizer)
    settings = [getattr(inner, "_learning_rate", None), *getattr(inner, "_hyper", {}).values()]
    return [
        *(variables() if callable(variables) else variables),
        *(one for one in settings if isinstance(native_variable(one), tf.Variable)),
    ]


def _build(optimizer: Any, variables: list[Any]) -> None:
    """Makes the state of an optimizer that has none yet."""
    if not getattr(optimizer, "built", getattr(_inner(optimizer), "_built", False)):
        # The optimizers of tf_keras.optimizers.legacy have no build().
        build = getattr(optimizer, "build", None) or optimizer._create_all_weights
        build(variables)


class _Callback(tf.keras.callbacks.Callback):
    """Of the Keras that TensorFlow uses: that of the model has to be the same."""

    def set_model(self, model: Any) -> None:
        own = tf.keras.Model.__module__.split(".")[0]
        packages = {base.__module__.split(".")[0] for base in type(model).__mro__}
        for other in packages & {"keras", "tf_keras"} - {own}:
            remedy = "set TF_USE_LEGACY_KERAS=1" if own == "keras" else "unset TF_USE_LEGACY_KERAS"
            raise ValueError(
                f"{type(self).__name__} is a callback of {own}, but the model is of {other}: "
                f"{remedy} before TensorFlow is imported, or make the model with tf.keras"
            )
        super().set_model(model)


class BestModelCheckpoint:
    """Not there yet; the name exists for scripts that choose it by an option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "hvd.callbacks.BestModelCheckpoint is not supported yet: give rank 0 "
            "keras.callbacks.ModelCheckpoint(path, save_best_only=True)"
        )


class BroadcastGlobalVariablesCallback(_Callback):
    """Starts all ranks from the root's weights and optimizer state.

    They are broadcast before the first step where all ranks have built the model, and what did not
    exist then after it. Random seeds stay each rank's own. `device` and `local_variables` (not
    broadcast) are as in the original.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._done = {native_variable(one).ref() for one in local_variables or ()}
        self._is_over = False

    def on_train_begin(self, logs: Logs = None) -> None:
        # A rank may have loaded what the others have yet to make, and then has more variables.
        if not self._is_over and all(allgather_object(bool(self.model.built))):
            _build(self.model.optimizer, self.model.trainable_variables)
            self._broadcast_new()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if not self._is_over:
            self._broadcast_new()
            self._is_over = True

    def _broadcast_new(self) -> None:
        known = [*self.model.weights, *_variables(self.model.optimizer)]
        keyed = {native_variable(one).ref(): one for one in known}
        new = {key: one for key, one in keyed.items() if key not in self._done}
        self._done.update(new)
        with tf.device(self.device):
            broadcast_variables(list(new.values()), self.root_rank)


class MetricAverageCallback(_Callback):
    """Averages the metrics over the ranks at the end of every epoch.

    Callbacks that follow it in the list see the averages, the same on every rank: put it before
    those that decide by a metric (early stopping, checkpoints, a rate on a plateau).
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        values = {key: float(value) for key, value in (logs or {}).items() if _is_number(value)}
        if logs is not None and values:
            with tf.device(self.device):
                logs.update(average_numbers(values, "MetricAverageCallback"))


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) or np.ndim(value) == 0


class LearningRateScheduleCallback(_Callback):
    """Sets the learning rate to `initial_lr * multiplier(epoch)` from `start_epoch` to before
    `end_epoch`.

    A number as `multiplier` is an exponential decay, `multiplier ** (epoch - start_epoch)`, as in
    the original since 0.23; a constant factor is `lambda epoch: 0.1`. With `staircase` the rate
    changes once an epoch; without it at every batch, the epoch being a fraction, for which
    `steps_per_epoch` is needed where Keras does not know it. Without `initial_lr` it is the rate
    that the optimizer has when training begins. `momentum_correction` scales what SGD has gathered
    in its momentum with the rate, so that a change takes effect at once.
    """

    def __init__(
        self,
        initial_lr: float | None = None,
        multiplier: float | Multiplier | None = None,
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if multiplier is None:
            raise ValueError("multiplier is missing: give a number or a function of the epoch")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.multiplier = multiplier if callable(multiplier) else _decay(multiplier, start_epoch)
        self.current_epoch = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        if self.initial_lr is None:
            self.initial_lr = self._learning_rate()
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise ValueError(
                    f"{type(self).__name__}: the number of steps in an epoch is not known: pass "
                    f"steps_per_epoch"
                )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        is_over = self.end_epoch is not None and self.current_epoch >= self.end_epoch
        if self.current_epoch < self.start_epoch or is_over:
            return
        if not self.staircase:
            self._adjust(self.current_epoch + batch / self._steps())
        elif batch == 0:
            self._adjust(self.current_epoch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["lr"] = self._learning_rate()

    def _steps(self) -> int:
        assert self.steps_per_epoch
        return self.steps_per_epoch

    def _learning_rate(self) -> float:
        return float(np.asarray(_inner(self.model.optimizer).learning_rate))

    def _adjust(self, epoch: float) -> None:
        assert self.initial_lr is not None
        optimizer = _inner(self.model.optimizer)
        before = self._learning_rate()
        after = self.initial_lr * self.multiplier(epoch)
        if before == after:
            return
        optimizer.learning_rate = after
        if self.momentum_correction and before > 0:
            _scale_momentum(optimizer, after / before)


def _decay(base: float, start_epoch: int) -> Multiplier:
    if base != 1:  # until 0.22 of the original, and in its ImageNet example, it is a constant
        say_once(
            f"LearningRateScheduleCallback: multiplier={base} means initial_lr * {base} ** (epoch "
            f"- start_epoch); for a constant factor pass lambda epoch: {base}"
        )
    return lambda epoch: base ** (epoch - start_epoch)


def _scale_momentum(optimizer: Any, factor: float) -> None:
    """The sums of past steps hold the rates of those steps: multiplying them once by the ratio is
    the correction of Goyal et al. (2017), which multiplies the momentum for one step."""
    if not getattr(optimizer, "momentum", 0):
        return
    sums = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or []
    for variable in sums:
        if variable is not None:
            own = native_variable(variable)
            own.assign(own * tf.cast(factor, own.dtype))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate from `initial_lr / size` to `initial_lr` over the first
    `warmup_epochs` epochs, batch by batch.

    `initial_lr` is the rate already scaled for all ranks; without it the optimizer's rate when
    training begins. `verbose` above 0 prints a line of rank 0 at the end.
    """

    def __init__(
        self,
        initial_lr: float | None = None,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # One batch further, so that an epoch ends on a round number.
            progress = (epoch + 1.0 / self._steps()) / warmup_epochs
            return (progress * (basics.size() - 1) + 1) / basics.size()

        super().__init__(
            initial_lr,
            multiplier,
            start_epoch=0,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch, logs)
        is_last = self.end_epoch is not None and epoch == self.end_epoch - 1
        if is_last and self.verbose > 0 and basics.rank() == 0:
            print(
                f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to "
                f"{self._learning_rate():g}."
            )


LRWarmupCallback = LearningRateWarmupCallback
