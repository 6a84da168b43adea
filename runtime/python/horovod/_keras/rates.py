# SPDX-License-Identifier: Apache-2.0
"""The scaled and warmed-up learning rate as a schedule of the program's Keras."""

from __future__ import annotations

from typing import Any

from horovod._keras.chosen import keras_module
from horovod.common.basics import basics

_keras = keras_module()


class WarmupSchedule(_keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    """Raises the rate from `learning_rate / size` to `learning_rate` during `warmup_steps` steps.

    `learning_rate` is the rate already scaled for all ranks, or a schedule of it. `size` is the
    number of ranks of the job unless given; a saved schedule keeps it.
    """

    def __init__(self, learning_rate: Any, warmup_steps: int, size: int | None = None) -> None:
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.size = basics.size() if size is None else size

    def __call__(self, step: Any) -> Any:
        rate = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        if self.warmup_steps <= 0 or self.size == 1:
            return rate
        if _keras.__name__ == "keras":
            steps, minimum = _keras.ops.cast(step, "float32"), _keras.ops.minimum
        else:
            import tensorflow as tf

            steps, minimum = tf.cast(step, tf.float32), tf.minimum
        progress = minimum((steps + 1.0) / self.warmup_steps, 1.0)
        return rate * (progress * (self.size - 1) + 1.0) / self.size

    def get_config(self) -> dict[str, Any]:
        rate = self.learning_rate
        if callable(rate):
            rate = _keras.optimizers.schedules.serialize(rate)
        return {"learning_rate": rate, "warmup_steps": self.warmup_steps, "size": self.size}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WarmupSchedule:
        rate = config["learning_rate"]
        if isinstance(rate, dict):
            rate = _keras.optimizers.schedules.deserialize(rate)
        return cls(**{**config, "learning_rate": rate})


WarmupSchedule.__module__ = "horovod.keras.optimizers"
