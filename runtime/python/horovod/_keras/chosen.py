# SPDX-License-Identifier: Apache-2.0
"""Which Keras the program uses, and which framework that Keras computes with."""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def _program_imports(package: str) -> bool:
    """Whether the program's own file has this package, or something of it, under some name."""
    names = vars(sys.modules.get("__main__", sys)).values()
    modules = (one.__name__ if isinstance(one, ModuleType) else _module(one) for one in names)
    return any(one.split(".")[0] == package for one in modules)


def _module(thing: object) -> str:
    name = getattr(thing, "__module__", "")
    return name if isinstance(name, str) else ""


def _is_tf_keras() -> bool:
    if os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        return True
    # TensorFlow imports Keras 3 whether the program uses it or not; tf_keras comes when asked for.
    return "tf_keras" in sys.modules and not _program_imports("keras")


def backend_name() -> str:
    """What Keras 3 computes with: "tensorflow", "torch", ..., found without importing Keras."""
    if "keras" in sys.modules and hasattr(sys.modules["keras"], "backend"):
        name: str = sys.modules["keras"].backend.backend()
        return name
    if os.environ.get("KERAS_BACKEND"):
        return os.environ["KERAS_BACKEND"]
    folder = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    try:
        settings = json.loads((Path(folder) / "keras.json").read_text())
    except (OSError, ValueError):
        return "tensorflow"
    return str(settings.get("backend", "tensorflow"))


@functools.cache
def framework() -> Any:
    """The module with the operations on this Keras's tensors: on_tensorflow or on_torch."""
    name = "torch" if not _is_tf_keras() and backend_name() == "torch" else "tensorflow"
    return importlib.import_module(f"horovod._keras.on_{name}")


@functools.cache
def keras_module() -> Any:
    """Keras 3 or tf_keras, the program's."""
    framework()  # it says what is missing, in our words
    return importlib.import_module("tf_keras" if _is_tf_keras() else "keras")
