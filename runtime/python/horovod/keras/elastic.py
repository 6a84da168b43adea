# SPDX-License-Identifier: Apache-2.0
"""Elastic training. Not there yet; the names exist for scripts that choose it by an option."""

from __future__ import annotations

from typing import Any, NoReturn


def _not_yet(what: str) -> NoReturn:
    raise NotImplementedError(f"horovod.keras.elastic.{what} is not supported yet")


def run(func: Any) -> NoReturn:
    _not_yet("run")


class KerasState:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _not_yet("KerasState")


class CommitStateCallback:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _not_yet("CommitStateCallback")


class UpdateBatchStateCallback:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _not_yet("UpdateBatchStateCallback")


class UpdateEpochStateCallback:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _not_yet("UpdateEpochStateCallback")
