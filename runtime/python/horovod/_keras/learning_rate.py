# SPDX-License-Identifier: Apache-2.0
"""The callbacks that set the learning rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from horovod._keras.callback import Callback, Logs
from horovod._keras.compilation import say_once
from horovod._keras.state import inner, momentum_slots, number_of, scale
from horovod.common.basics import basics
from horovod.common.learning_rate import scale_factor, warmup_factor

Multiplier = Callable[[float], float]


class LearningRateScheduleCallback(Callback):
    """Sets the learning rate to `initial_lr * multiplier(epoch)` from `start_epoch` to before
    `end_epoch`.

    A number as `multiplier` is an exponential decay, `multiplier ** (epoch - start_epoch)`, as in
    the original since 0.23; a constant factor is `lambda epoch: 0.1`. With `staircase` the rate
    changes once an epoch; without it at every batch, the epoch being a fraction, for which
    `steps_per_epoch` is needed where Keras does not know it. Without `initial_lr` it is the rate
    that the optimizer has when training begins. `momentum_correction` scales what SGD has gathered
    in its momentum with the rate, so that a change takes effect at once.
    """

    numbers_are_constant = False  # True for scripts from before 0.23, by horovod.classic

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
        self.multiplier = multiplier if callable(multiplier) else self._of(multiplier)
        self.current_epoch = 0

    def _of(self, number: float) -> Multiplier:
        return (
            (lambda epoch: number)
            if self.numbers_are_constant
            else _decay(number, self.start_epoch)
        )

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
        return float(number_of(inner(self.model.optimizer).learning_rate))

    def _adjust(self, epoch: float) -> None:
        assert self.initial_lr is not None
        optimizer = inner(self.model.optimizer)
        before = self._learning_rate()
        after = self.initial_lr * self.multiplier(epoch)
        if before == after:
            return
        optimizer.learning_rate = after
        if self.momentum_correction and before > 0:
            _scale_momentum(optimizer, self.model.trainable_variables, after / before)


def _decay(base: float, start_epoch: int) -> Multiplier:
    if base != 1:  # until 0.22 of the original, and in its ImageNet example, it is a constant
        say_once(
            f"LearningRateScheduleCallback: multiplier={base} means initial_lr * {base} ** (epoch "
            f"- start_epoch); for a constant factor pass lambda epoch: {base}"
        )
    return lambda epoch: base ** (epoch - start_epoch)


def _scale_momentum(optimizer: Any, variables: Sequence[Any], factor: float) -> None:
    """The sums of past steps hold the rates of those steps: multiplying them once by the ratio is
    the correction of Goyal et al. (2017), which multiplies the momentum for one step."""
    if not number_of(getattr(optimizer, "momentum", 0)):
        return
    sums = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None)
    for variable in momentum_slots(optimizer, variables) if sums is None else sums:
        if variable is not None:
            scale(variable, factor)


class LearningRateScalingCallback(Callback):
    """Multiplies the optimizer's rate by the number of ranks when training begins, or with
    rule="sqrt" by its root: for a rate that is meant for one rank.

    It comes before the callbacks of a warm-up or schedule in the list.
    """

    def __init__(self, rule: str = "linear") -> None:
        super().__init__()
        self.factor = scale_factor(rule)
        self._is_over = False

    def on_train_begin(self, logs: Logs = None) -> None:
        if not self._is_over:  # a second fit() goes on at the rate of the first
            optimizer = inner(self.model.optimizer)
            optimizer.learning_rate = float(number_of(optimizer.learning_rate)) * self.factor
            self._is_over = True


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
            return warmup_factor(epoch + 1.0 / self._steps(), warmup_epochs)

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
