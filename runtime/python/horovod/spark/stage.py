# SPDX-License-Identifier: Apache-2.0
"""The part of horovod.spark.run that runs in Spark's tasks."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from horovod.runner.function_job import launcher
from horovod.runner.spark_task import PYTHON, TASKS
from horovod.spark.admission import AdmissionError, Ticket

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Settings:
    """Travels in the closure of the tasks."""

    address: str  # where the driver's horovodrun listens
    ticket: Ticket
    limit: int  # seconds in which all tasks have to join
    env: Mapping[str, str]
    executable: str | None


def join_job(settings: Settings) -> Callable[[Iterator[int]], Iterator[str]]:
    """What each task does: returns until the job is over, and never raises, since Spark would try
    the stage again. Gives the task's failure, or an empty text."""

    def task(partitions: Iterator[int]) -> Iterator[str]:
        try:
            yield _task(settings, next(iter(partitions)))
        except Exception as error:
            yield f"{type(error).__name__}: {error}"

    return task


def _task(settings: Settings, partition: int) -> str:
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel chooses an abstract name
        listener.listen(socket.SOMAXCONN)
        own = {
            "partition": partition,
            "host": _host(),
            "socket": listener.getsockname().decode(),
            **_place(context, settings),
        }
        everyone = [json.loads(text) for text in context.allGather(json.dumps(own))]
        here = sorted(
            (one for one in everyone if one["host"] == own["host"]),
            key=lambda one: one["partition"],
        )
        if here[0]["partition"] == partition:
            return _join(settings, here)
    _wait_for_end_of(here[0]["socket"])
    return ""


def _wait_for_end_of(leader: str) -> None:
    """Until the task that has started the agent ends, in whatever way: the kernel then closes its
    listener and all connections that wait there. A barrier of Spark does not serve for this: its
    executor ends when a task is killed there (Spark 3.5 to 4.3)."""
    with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(ConnectionError):
        connection.connect(leader)
        connection.recv(1)


def _host() -> str:
    """One text for all tasks that see the same processes and sockets."""
    return f"{platform.node()} {os.stat('/proc/self/ns/net').st_ino}"


def _place(context: Any, settings: Settings) -> dict[str, Any]:
    """How a rank in the place of this task runs."""
    gpus = context.resources().get("gpu")
    return {
        "python": settings.executable or sys.executable,
        "path": [entry for entry in sys.path if entry],
        "folder": os.getcwd(),
        "gpus": None if gpus is None else ",".join(gpus.addresses),
    }


def _join(settings: Settings, here: list[dict[str, Any]]) -> str:
    """Lets this host join the job, with a rank for each of its tasks; why it did not, if so."""
    try:
        token = settings.ticket.redeem(here[0]["partition"], len(here))
    except (AdmissionError, OSError) as error:
        return f"no admission: {error}"
    name = ("--join-name", platform.node(), "--join-slots", str(len(here)))
    limit = f"--start-timeout={settings.limit}"
    process = subprocess.Popen(
        [launcher(), "--join", settings.address, *name, limit],
        env={
            **os.environ,
            **settings.env,
            PYTHON: here[0]["python"],
            "PYTHONPATH": os.pathsep.join(here[0]["path"]),
            TASKS: json.dumps(here),
        },
        stdin=subprocess.PIPE,
        preexec_fn=_end_with_parent,
    )
    process.communicate(token.encode() + b"\n")
    return "" if process.returncode == 0 else f"horovodrun --join ended with {process.returncode}"


def _end_with_parent() -> None:
    """When Spark ends its worker, the agent leaves the job, which ends its ranks."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
