# SPDX-License-Identifier: Apache-2.0
"""load_model: a saved model whose optimizer is distributed again."""

from __future__ import annotations

from typing import Any

from horovod._keras.chosen import framework, keras_module
from horovod._keras.distribution import Distribution
from horovod._keras.optimizer import distribute_in_place, is_distributed
from horovod.common.reduction import ReducerSettings

Compression = framework().Compression


def load_model(
    filepath: str,
    custom_optimizers: list[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """keras.models.load_model, with the optimizer that was saved wrapped again, its state kept.

    `custom_optimizers` are optimizer classes of one's own. A model with an optimizer of
    tf_keras.optimizers.legacy needs `legacy_opts=True` in the original; here it is found by what
    was saved. Raises ValueError for it where Keras has no such optimizers.
    """
    if legacy_opts and keras_module().__name__ != "tf_keras":
        raise ValueError(
            "legacy_opts=True: Keras 3 has no legacy optimizers. Leave it out, or use tf_keras "
            "with TF_USE_LEGACY_KERAS=1"
        )
    known = {kind.__name__: kind for kind in custom_optimizers or ()}
    objects = {**known, **(custom_objects or {})}
    model = keras_module().models.load_model(filepath, custom_objects=objects)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not is_distributed(optimizer):
        settings = ReducerSettings(
            "DistributedOptimizer", is_wire_name=True, compression=compression
        )
        distribution = Distribution(framework(), settings, passes=1, average_passes=False)
        distribute_in_place(optimizer, distribution)
        model.jit_compile = False
        if hasattr(model, "_make_train_function"):  # tf_keras in a graph of TensorFlow 1
            model.train_function = None  # loading has made one, with the optimizer as it was
        else:
            model.make_train_function(force=True)
    return model
