# SPDX-License-Identifier: Apache-2.0
"""Keras 2 and TensorFlow 1 for a process: for a script, a notebook or a function of ranks."""

from __future__ import annotations

import importlib.util
import inspect
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

_is_enabled = False


def enable(data: str | Path | None = None) -> None:
    """From now on imports of the program find tf_keras as keras and tf.compat.v1 as tensorflow, in
    graph mode. Called before the program imports either; a second call does nothing.

    `data` is a folder with the files that the program would download, such as mnist.npz. Raises
    ModuleNotFoundError where TensorFlow or tf_keras is not installed.
    """
    global _is_enabled
    if _is_enabled:
        return
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # read at the import of TensorFlow
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    for package in ("tensorflow", "tf_keras"):
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(
                f"horovod.classic needs {package}: pip install tensorflow tf_keras", name=package
            )
    import tensorflow as tf

    tf.compat.v1.disable_v2_behavior()
    # Collectives work on the memory of resource variables.
    tf.compat.v1.enable_resource_variables()
    from horovod.classic import data_sets, imports, models

    data_sets.use(None if data is None else Path(data))
    models.prepare()
    imports.install()
    _is_enabled = True


def wrap(function: Callable[..., Any], data: str | Path | None = None) -> Callable[..., Any]:
    """A function for horovod.run, horovod.spark.run and HorovodRunner that was written for Keras 2
    and TensorFlow 1: each rank calls enable(data) before it unpickles `function`.

    The function imports TensorFlow and Keras itself, unless the calling program has called enable:
    a global name that is today's TensorFlow or Keras is a ValueError.
    """
    for name, value in inspect.getclosurevars(function).globals.items():
        if not _is_enabled and _package_of(value) in ("keras", "tensorflow"):
            raise ValueError(
                f"{getattr(function, '__name__', function)} uses {name}, which this program has "
                "imported from today's TensorFlow or Keras: import it in the function, or call "
                "horovod.classic.enable() before the program imports it"
            )
    return _ClassicFunction(cloudpickle.dumps(function), data)


def _package_of(value: Any) -> str:
    module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return str(module).split(".")[0]


class _ClassicFunction:
    """What travels to the ranks."""

    def __init__(self, pickled: bytes, data: str | Path | None) -> None:
        self._pickled = pickled
        self._data = data

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        enable(self._data)
        return pickle.loads(self._pickled)(*args, **kwargs)
