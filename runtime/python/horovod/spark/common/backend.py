# SPDX-License-Identifier: Apache-2.0
"""What runs the training function of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark import SparkContext

from horovod.runner.function_job import run as run_local
from horovod.spark.function_job import run


class SparkBackend:
    """Tasks of Spark. None: spark.default.parallelism. The other arguments are of
    horovod.spark.run."""

    def __init__(
        self, num_proc: int | None = None, env: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        context = SparkContext._active_spark_context
        if num_proc is None and context is None:
            raise RuntimeError("num_proc is missing, and no SparkContext is active")
        self._size = num_proc or context.defaultParallelism
        self._env = dict(env or {})
        self._kwargs = kwargs

    def num_processes(self) -> int:
        return self._size

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        variables = {**self._env, **(env or {})}
        return run(fn, args, kwargs, num_proc=self._size, env=variables, **self._kwargs)


class LocalBackend:
    """Processes of the driver's machine."""

    def __init__(self, num_proc: int = 1) -> None:
        self._size = num_proc

    def num_processes(self) -> int:
        return self._size

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        return run_local(_with_environment(dict(env or {}), fn), args, kwargs, num_proc=self._size)


def _with_environment(env: dict[str, str], fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        import os

        os.environ.update(env)
        return fn(*args, **kwargs)

    return call
