# SPDX-License-Identifier: Apache-2.0
"""Keras models as bytes."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def package_of(model: Any) -> str:
    """The Keras that the model is of: keras or tf_keras."""
    packages = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    for name in ("tf_keras", "keras"):
        if name in packages:
            return name
    raise TypeError(f"model is a {type(model).__name__}: expected one of Keras")


def environment_of(package: str) -> dict[str, str]:
    """Variables with which a rank uses the same Keras."""
    if package == "tf_keras":
        return {"TF_USE_LEGACY_KERAS": "1"}
    return {"KERAS_BACKEND": importlib.import_module("keras").backend.backend()}


def dump_model(model: Any) -> bytes:
    """Layers and weights, without the optimizer."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        model.save(os.fspath(file), include_optimizer=False)
        return file.read_bytes()


def load_model(package: str, content: bytes, custom_objects: Mapping[str, Any]) -> Any:
    keras = importlib.import_module(package)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        file.write_bytes(content)
        return keras.models.load_model(
            os.fspath(file), custom_objects=dict(custom_objects), compile=False
        )
