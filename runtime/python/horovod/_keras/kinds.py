# SPDX-License-Identifier: Apache-2.0
"""Of which Keras an optimizer is, found without importing a Keras that the program does not use."""

from __future__ import annotations

import sys
from typing import Any


def is_instance_of(optimizer: Any, module: str, *path: str) -> bool:
    kind: Any = sys.modules.get(module)
    if not hasattr(kind, "__file__"):  # not imported, or what horovod.classic has under its name
        return False
    for step in path:
        kind = getattr(kind, step, None)
    return isinstance(kind, type) and isinstance(optimizer, kind)


def is_keras_3(optimizer: Any) -> bool:
    return is_instance_of(optimizer, "keras", "optimizers", "Optimizer")


def is_keras_3_loss_scale(optimizer: Any) -> bool:
    return is_instance_of(optimizer, "keras", "optimizers", "LossScaleOptimizer")


def is_tf_keras(optimizer: Any) -> bool:
    return is_instance_of(optimizer, "tf_keras", "optimizers", "Optimizer")


def is_tf_keras_legacy(optimizer: Any) -> bool:
    return is_instance_of(optimizer, "tf_keras", "optimizers", "legacy", "Optimizer")
