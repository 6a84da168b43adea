# SPDX-License-Identifier: Apache-2.0
"""A callback that shows the progress of training in the driver's output."""

from __future__ import annotations

import time
from typing import Any

from tensorflow import keras

from sparkdl.horovod import log_to_driver

__all__ = ["LogCallback"]


class LogCallback(keras.callbacks.Callback):
    """Of each epoch, its number, metrics and time; with `per_batch_log` those of each batch too."""

    def __init__(self, per_batch_log: bool = False) -> None:
        super().__init__()
        self.per_batch_log = per_batch_log
        self._begun = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun = time.monotonic()
        log_to_driver(f"Epoch {epoch} begin")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        took = time.monotonic() - self._begun
        log_to_driver(f"Epoch {epoch} end: {_text(logs)}, {took:.2f} s")

    def on_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.per_batch_log:
            log_to_driver(f"Batch {batch} end: {_text(logs)}")


def _text(logs: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {float(value):.4f}" for name, value in (logs or {}).items())
