# SPDX-License-Identifier: Apache-2.0
"""load_model: a saved model whose optimizer is distributed again."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod._keras.optimizer import Distribution, distribute_in_place, is_distributed
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.gradient_reducer import ReducerSettings


def load_model(
    filepath: str,
    custom_optimizers: list[type] | None = None,
    custom_objects: dict[str, Any] | None = None,
    compression: type[Compressor] = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """keras.models.load_model, with the optimizer that was saved wrapped again, its state kept.

    `custom_optimizers` are optimizer classes of one's own; `legacy_opts` is accepted: a saved
    optimizer is found by what was saved.
    """
    known = {kind.__name__: kind for kind in custom_optimizers or ()}
    model = tf.keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not is_distributed(optimizer):
        settings = ReducerSettings(
            "DistributedOptimizer", is_wire_name=True, compression=compression
        )
        distribute_in_place(optimizer, Distribution(settings, passes=1, average_passes=False))
        model.jit_compile = False
        model.make_train_function(force=True)
    return model
