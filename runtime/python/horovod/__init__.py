# SPDX-License-Identifier: Apache-2.0
"""Distributed training. Import a front end: `import horovod.torch as hvd`, `horovod.keras`, ..."""

from __future__ import annotations

from typing import Any, NoReturn


def run(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("horovod.run is not supported yet: start the program with horovodrun")


def __getattr__(name: str) -> str:
    # The version has one place, the library, which is loaded only when somebody asks.
    if name == "__version__":
        from horovod.common.library import library

        return library.version
    raise AttributeError(f"module 'horovod' has no attribute '{name}'")
