# SPDX-License-Identifier: Apache-2.0
"""What the callbacks of horovod.keras and horovod.tensorflow.keras have in common."""

from __future__ import annotations

from typing import Any

from horovod._keras.chosen import keras_module

Logs = dict[str, Any] | None

_Base: Any = keras_module().callbacks.Callback


class Callback(_Base):
    """Of the Keras that the program uses: that of the model has to be the same."""

    def set_model(self, model: Any) -> None:
        own = _Base.__module__.split(".")[0]
        packages = {base.__module__.split(".")[0] for base in type(model).__mro__}
        for other in packages & {"keras", "tf_keras"} - {own}:
            remedy = "set TF_USE_LEGACY_KERAS=1" if own == "keras" else "unset TF_USE_LEGACY_KERAS"
            raise ValueError(
                f"{type(self).__name__} is a callback of {own}, but the model is of {other}: "
                f"{remedy} before TensorFlow is imported, or make the model with {own}"
            )
        super().set_model(model)
