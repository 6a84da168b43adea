# SPDX-License-Identifier: Apache-2.0
"""HorovodRunner: a training function of a Spark notebook, on the driver or in Spark's tasks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, TextIO, cast

from pyspark import SparkContext

from horovod.runner import messages
from horovod.runner.function_job import Outcome, launcher
from horovod.runner.job import start_job
from horovod.spark.driver_log import DriverLog
from horovod.spark.driver_stage import registered_slots_of
from horovod.spark.function_job import RankOptions, default_limit, run_stage

_VERBOSITIES = ("all", "log_callback_only")
# As mpirun tags lines, which programs take apart.
_PREFIX = "--prefix=[1,{rank}]<{stream}>:"


class HorovodRunner:
    """Runs a function in `np` processes, each with its rank.

    np < 0: -np processes on the driver. np > 0: as many tasks of Spark, which start together; more
    than the cluster can run at a time is a ValueError. 0, which is deprecated: all that it can run.

    `driver_log_verbosity` "all" brings what the processes print to the driver's output, as lines
    `[1,rank]<stdout>:text`; so does np < 0. "log_callback_only" brings the messages of
    `sparkdl.horovod.log_to_driver` alone, which "all" brings too.
    """

    def __init__(self, *, np: int, driver_log_verbosity: str = "log_callback_only") -> None:
        if driver_log_verbosity not in _VERBOSITIES:
            raise ValueError(
                f"driver_log_verbosity is {driver_log_verbosity!r}: expected "
                f"{' or '.join(map(repr, _VERBOSITIES))}"
            )
        if np == 0:
            warnings.warn(
                "HorovodRunner(np=0) is deprecated: set np to the number of processes",
                DeprecationWarning,
                stacklevel=2,
            )
        self.num_processor = np
        self.driver_log_verbosity = driver_log_verbosity

    def run(self, main: Callable[..., Any], **kwargs: Any) -> Any:
        """Calls `main(**kwargs)` in each process, and returns what it returned in rank 0."""
        call = messages.encode_call(main, (), kwargs)
        shows_all = self.driver_log_verbosity == "all" or self.num_processor < 0
        streams = [
            cast("TextIO", DriverLog(stream, shows_all)) for stream in (sys.stdout, sys.stderr)
        ]
        outcome = Outcome(*streams)
        if self.num_processor < 0:
            command = [launcher(), "-np", str(-self.num_processor), _PREFIX]
            with start_job(command, call) as job:
                for event in job.events():
                    outcome.add(event)
            return outcome.results()[0]
        context = SparkContext.getOrCreate()
        slots = registered_slots_of(context, self.num_processor)
        size = self.num_processor or slots or context.defaultParallelism
        if slots is not None and size > slots:
            raise ValueError(
                f"HorovodRunner(np={size}): Spark can run {slots} tasks at the same time: ask for "
                f"at most {slots}, or give Spark more executors or cores"
            )
        options = RankOptions(size, default_limit(), [_PREFIX])
        return run_stage(context, call, options, outcome)[0]
