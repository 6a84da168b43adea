# SPDX-License-Identifier: Apache-2.0
"""Elastic training. Not there yet; the names exist for scripts that choose it by an option."""

from __future__ import annotations

from typing import Any, NoReturn


def _not_yet(what: str) -> NoReturn:
    raise NotImplementedError(f"horovod.tensorflow.elastic.{what} is not supported yet")


def run(func: Any) -> NoReturn:
    _not_yet("run")


class TensorFlowState:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _not_yet("TensorFlowState")


class TensorFlowKerasState:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _not_yet("TensorFlowKerasState")
