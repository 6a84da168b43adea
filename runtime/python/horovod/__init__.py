# SPDX-License-Identifier: Apache-2.0
"""Distributed training. Import a front end: `import horovod.torch as hvd`, `horovod.keras`, ..."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any, NoReturn

_LATER = {
    "horovod.data": "asynchronous data loaders are not part of this version",
    "horovod.mxnet": "MXNet is not supported by this version",
    "horovod.ray": "Ray is not supported by this version; start jobs with horovodrun",
    "horovod.runner.launch": "the launcher is the program horovodrun",
    "horovod.spark": "Spark is not supported by this version; start jobs with horovodrun",
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


def run(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("horovod.run is not supported yet: start the program with horovodrun")


def __getattr__(name: str) -> str:
    # The version has one place, the library, which is loaded only when somebody asks.
    if name == "__version__":
        from horovod.common.library import library

        return library.version
    raise AttributeError(f"module 'horovod' has no attribute '{name}'")
