# SPDX-License-Identifier: Apache-2.0
"""The callbacks of horovod.keras and horovod.tensorflow.keras."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np

from horovod._keras import state
from horovod._keras.callback import Callback, Logs
from horovod._keras.chosen import framework, keras_module
from horovod._keras.learning_rate import (
    LearningRateScalingCallback,
    LearningRateScheduleCallback,
    LearningRateWarmupCallback,
    LRWarmupCallback,
)
from horovod._keras.values import average_numbers
from horovod.common import objects

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LRWarmupCallback",
    "LearningRateScalingCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]

_Checkpoint: Any = keras_module().callbacks.ModelCheckpoint


class BestModelCheckpoint(_Checkpoint):
    """keras.callbacks.ModelCheckpoint with save_best_only=True. Where it saves is set later, as
    `filepath`, on the ranks that are to save."""

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
    ) -> None:
        super().__init__(
            # Keras looks at how the name ends.
            filepath="best.weights.h5" if save_weights_only else "best.keras",
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath: str | None = None

    def on_train_begin(self, logs: Logs = None) -> None:
        if self.filepath is None:
            raise ValueError("BestModelCheckpoint: set its filepath before training begins")
        self.filepath = os.fspath(self.filepath)
        super().on_train_begin(logs)


class BroadcastGlobalVariablesCallback(Callback):
    """Starts all ranks from the root's weights and optimizer state.

    They are broadcast before the first step where all ranks have built the model, and what did not
    exist then after it. Random seeds stay each rank's own. `device` and `local_variables` (not
    broadcast) are as in the original.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._done = {framework().key_of(one): one for one in local_variables or ()}
        self._is_over = False

    def on_train_begin(self, logs: Logs = None) -> None:
        # A rank may have loaded what the others have yet to make, and then has more variables.
        if not self._is_over and all(objects.allgather_object(bool(self.model.built))):
            state.build(self.model.optimizer, self.model.trainable_variables)
            self._broadcast_new()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if not self._is_over:
            self._broadcast_new()
            self._is_over = True

    def _broadcast_new(self) -> None:
        known = [*self.model.weights, *state.all_variables_of(self.model.optimizer)]
        keyed = {framework().key_of(one): one for one in known}
        new = {key: one for key, one in keyed.items() if key not in self._done}
        self._done.update(new)
        framework().broadcast_on(self.device, list(new.values()), self.root_rank)


class MetricAverageCallback(Callback):
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
            with framework().on_device(self.device):
                logs.update(average_numbers(values, "MetricAverageCallback"))


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) or np.ndim(value) == 0
