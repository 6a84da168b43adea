# SPDX-License-Identifier: Apache-2.0
"""The state of an optimizer of any Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from horovod._keras.chosen import keras_module


def inner(optimizer: Any) -> Any:
    """The optimizer inside a loss scale optimizer."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def variables_of(optimizer: Any) -> list[Any]:
    """What it says are its variables; none without an optimizer."""
    if optimizer is None:
        return []
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def all_variables_of(optimizer: Any) -> list[Any]:
    """All there are: tf_keras does not count the learning rate and other settings."""
    own = inner(optimizer)
    settings = [getattr(own, "_learning_rate", None), *getattr(own, "_hyper", {}).values()]
    return [*variables_of(optimizer), *(one for one in settings if hasattr(one, "assign"))]


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes the state of an optimizer that has none yet."""
    if not getattr(optimizer, "built", getattr(inner(optimizer), "_built", False)):
        # The optimizers of tf_keras.optimizers.legacy have no build().
        make = getattr(optimizer, "build", None) or optimizer._create_all_weights
        make(variables)


def number_of(variable: Any) -> Any:
    """The value of a variable, also of a graph of TensorFlow 1, where only a session knows it."""
    keras = keras_module()
    is_tf_keras = keras.__name__ == "tf_keras"
    return keras.backend.get_value(variable) if is_tf_keras else np.asarray(variable)


def scale(variable: Any, factor: float) -> None:
    """Multiplies a variable, also of a graph of TensorFlow 1."""
    keras = keras_module()
    if keras.__name__ == "tf_keras":
        keras.backend.set_value(variable, keras.backend.get_value(variable) * factor)
    else:
        variable.assign(variable * factor)


def momentum_slots(optimizer: Any, variables: Sequence[Any]) -> list[Any]:
    """The sums of past steps that an optimizer of tf_keras.optimizers.legacy keeps, if any."""
    if not hasattr(optimizer, "get_slot") or "momentum" not in optimizer.get_slot_names():
        return []
    return [optimizer.get_slot(variable, "momentum") for variable in variables]
