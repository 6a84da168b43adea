# SPDX-License-Identifier: Apache-2.0
"""Distributed training. Import a front end: `import horovod.torch as hvd`, `horovod.keras`, ..."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any

_LATER = {
    "horovod.data": "asynchronous data loaders are not part of this version",
    "horovod.mxnet": "MXNet is not supported by this version",
    "horovod.ray": "Ray is not supported by this version; start jobs with horovodrun",
    "horovod.runner.launch": "the launcher is the program horovodrun",
    "horovod.spark.lightning": "Lightning is not supported; use horovod.spark.torch",
    "horovod.tensorflow.data": "the tf.data service is not part of this version",
}


class _LaterModules:
    """Asked after all others: says why a module of the original does not exist."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name in _LATER:
            raise ModuleNotFoundError(f"{name} does not exist: {_LATER[name]}", name=name)
        return None


sys.meta_path.append(_LaterModules)  # type: ignore[arg-type]


def __getattr__(name: str) -> Any:
    # Loaded only when somebody asks: a front end needs neither.
    if name == "run":
        from horovod.runner import run

        return run
    if name == "__version__":  # it has one place, the library
        from horovod.common.library import library

        return library.version
    raise AttributeError(f"module 'horovod' has no attribute '{name}'")
