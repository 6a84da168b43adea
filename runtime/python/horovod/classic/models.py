# SPDX-License-Identifier: Apache-2.0
"""What the models of Keras 2 did, and those of tf_keras in a graph do in another way."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
from tf_keras.src.engine import training_v1

from horovod.classic import optimizers
from horovod.classic.report import substitution
from horovod.keras.callbacks import LearningRateScheduleCallback

_GENERATORS = ("fit_generator", "evaluate_generator", "predict_generator")


def _reported(name: str) -> Any:
    """A method, whose use is reported."""
    method = getattr(training_v1.Model, name)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        substitution(f"Model.{name}", f"tf_keras' Model.{name.removesuffix('_generator')}")
        return method(self, *args, **kwargs)

    return call


def _compile() -> Any:
    method = training_v1.Model.compile

    @functools.wraps(method)
    def compile(self: Any, optimizer: Any = "rmsprop", *args: Any, **kwargs: Any) -> Any:
        if isinstance(optimizer, str):
            optimizer = optimizers.of_name(optimizer)
        method(self, optimizer, *args, **kwargs)
        names = [str(name) for name in self.metrics_names]
        if "acc" in names:
            substitution("logs['val_acc']", "tf_keras' log of the metric 'accuracy' in a graph")

    return compile


def prepare() -> None:
    """Changes the classes of this process."""
    for name in _GENERATORS:
        setattr(training_v1.Model, name, _reported(name))
    training_v1.Model.compile = _compile()
    # In Keras 2 every tensor of a model had its shape so.
    tf.Tensor._keras_shape = property(lambda tensor: tuple(tensor.shape.as_list()))
    # Until Horovod 0.22 a number was a constant factor.
    LearningRateScheduleCallback.numbers_are_constant = True
