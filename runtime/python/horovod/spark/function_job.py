# SPDX-License-Identifier: Apache-2.0
"""horovod.spark.run: a function of the driver in the tasks of one barrier stage.

The driver's horovodrun listens; on each host the task with the lowest partition starts an agent
that joins it. Function and results travel on the connections of agents, which are authenticated and
encrypted by a token; `admission` says how tasks get it.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pyspark import SparkContext

from horovod.runner import messages
from horovod.runner.function_job import Outcome, launcher
from horovod.runner.job import start_job
from horovod.runner.spark_task import PYTHON
from horovod.spark.admission import Admission
from horovod.spark.driver_stage import Stage, slots_of
from horovod.spark.stage import Settings

_START_TIMEOUT = "HOROVOD_SPARK_START_TIMEOUT"
_LISTENING = re.compile(r"waiting for .* at (\S+);")
_JOINING = re.compile(_LISTENING.pattern + "|has joined from")  # hosts, as is to be expected
# On a joining host: its own Python, which the agent's environment names.
_COMMAND = ("sh", "-c", f'exec "${PYTHON}" -m horovod.runner.spark_task')
_TIME_LIMIT = 124  # horovodrun's exit code
_PEER_LOST = "HorovodInternalError"  # a rank's exception whose cause is another rank's end


class LostTaskError(RuntimeError):
    """Spark has lost a task of the job, by the end of its executor for example."""


@dataclass
class RankOptions:
    """How the ranks of a job start."""

    size: int
    limit: int  # seconds
    flags: Sequence[str] = ()  # of horovodrun
    env: Mapping[str, str] = field(default_factory=dict)
    executable: str | None = None


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    start_timeout: int | None = None,
    use_mpi: bool | None = None,
    use_gloo: bool | None = None,
    extra_mpi_args: str | None = None,
    env: Mapping[str, str] | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    verbose: int = 1,
    nics: Sequence[str] | str | None = None,
    prefix_output_with_timestamp: bool = False,
    executable: str | None = None,
) -> list[Any]:
    """Calls `fn(*args, **kwargs)` in `num_proc` tasks of the active SparkContext that run at the
    same time, and returns what it returned in each, by rank. None: spark.default.parallelism.

    `env` are variables of the ranks, `nics` the network interfaces that they may use, `executable`
    their Python (None: that of Spark's workers). The output of the ranks goes to `stdout` and
    `stderr`, files of the driver. Tasks that do not all run within `start_timeout` seconds
    (HOROVOD_SPARK_START_TIMEOUT, else 600) are a RuntimeError that says how many Spark can run.

    Errors as of horovod.run, and LostTaskError. A failed stage is not tried again: `fn` runs once
    for each rank.
    """
    if use_mpi or extra_mpi_args:
        raise ValueError(
            "horovod.spark.run: Spark's tasks start the ranks, and not mpirun: "
            "leave use_mpi and extra_mpi_args out"
        )
    context = SparkContext._active_spark_context
    if context is None:
        raise RuntimeError(
            "Could not find an active SparkContext, are you running in a PySpark session?"
        )
    flags = []
    if nics:
        names = nics if isinstance(nics, str) else ",".join(nics)
        flags.append(f"--network-interfaces={names}")
    if prefix_output_with_timestamp:
        flags.append("--prefix-output-with-timestamp")
    if verbose >= 2:
        flags.append("--verbose")
    options = RankOptions(
        num_proc or context.defaultParallelism,
        start_timeout or default_limit(),
        flags,
        env or {},
        executable,
    )
    call = messages.encode_call(fn, args, kwargs)
    return run_stage(context, call, options, Outcome(stdout or sys.stdout, stderr or sys.stderr))


def default_limit() -> int:
    """How many seconds tasks may take to start."""
    text = os.environ.get(_START_TIMEOUT, "600")
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{_START_TIMEOUT}={text}: expected seconds, at least 1")
    return int(text)


def run_stage(
    context: SparkContext, call: bytes, options: RankOptions, outcome: Outcome
) -> list[Any]:
    """A job in one barrier stage, all of whose tasks run within the limit."""
    outcome.hide(_JOINING)
    token = secrets.token_hex(32)
    conf = context.getConf()
    host = conf.get("spark.driver.host") or "localhost"
    bind = conf.get("spark.driver.bindAddress") or host
    with tempfile.TemporaryDirectory(prefix="horovod-") as folder:
        file = Path(folder) / "token"
        file.touch(mode=0o600)
        file.write_text(token)
        command = [
            *(launcher(), "-np", str(options.size), f"--start-timeout={options.limit}"),
            *("--listen", f"{bind}:0", "--join-token-file", str(file), "--gpu-bind=none"),
            *options.flags,
        ]
        stage: Stage | None = None
        admission: Admission | None = None
        with start_job(command, call, command=_COMMAND) as job:
            try:
                for event in job.events():
                    outcome.add(event)
                    if stage is None and (address := outcome.said(_LISTENING)):
                        admission = Admission(host, bind, token, options.size, job.terminate)
                        settings = Settings(
                            f"{host}:{address.rpartition(':')[2]}",
                            admission.ticket,
                            options.limit,
                            dict(options.env),
                            options.executable,
                        )
                        stage = Stage(context, settings, options.size, job.terminate)
                if stage is not None and not outcome.has_ended_well():
                    _explain(context, stage, outcome, options.size)
            finally:
                if stage is not None:
                    stage.end()
                if admission is not None:
                    admission.close()
    return outcome.results()


def _explain(context: SparkContext, stage: Stage, outcome: Outcome, size: int) -> None:
    """Raises where the job has failed for a reason that Spark knows: the same one, whether Spark
    or horovodrun noticed it first."""
    if any(_PEER_LOST not in failure.summary.partition(":")[0] for failure in outcome.failures()):
        return  # the function's own exception
    is_late = outcome.exit_code == _TIME_LIMIT
    if not is_late:
        stage.wait_for_news()
    text = str(stage.error or "")
    if "dynamic resource allocation" in text:
        raise RuntimeError(
            "horovod.spark.run needs all its tasks at the same time, and Spark does not allow "
            "that with dynamic allocation: set spark.dynamicAllocation.enabled=false"
        ) from stage.error
    if "cancelled" in text or "was shut down" in text:
        raise RuntimeError(f"horovod.spark.run: Spark has ended the job: {_reason(text)}")
    slots = slots_of(context)
    if slots is not None and slots < size and (is_late or "more slots" in text):
        raise RuntimeError(
            f"horovod.spark.run needs {size} tasks at the same time, and Spark has {slots} slots: "
            f"ask for at most {slots} ranks, or give Spark more executors or cores"
        ) from stage.error
    if stage.has_lost_tasks():
        raise LostTaskError(
            "horovod.spark.run: Spark has lost a task of the job, as by the end of its executor; "
            "the job is not tried again, because its function has perhaps run"
        )
    if stage.error is not None:
        raise RuntimeError(f"horovod.spark.run: {_reason(text)}") from stage.error


def _reason(text: str) -> str:
    """The line of a Java exception that says why."""
    lines = [line for line in text.splitlines() if "Exception: " in line] or text.splitlines()
    return lines[0].rpartition("Exception: ")[2]
