# SPDX-License-Identifier: Apache-2.0
"""`python -m horovod.runner.task`: a rank that runs a function of the process that started the job.

HOROVOD_TASK_FD is the number of a descriptor, a stream socket to the rank's agent. The rank reads a
call from it, runs the function, and writes its outcome (`messages` has the format). An exception is
written as an outcome and then raised, so that the job ends as with any failed rank.
"""

from __future__ import annotations

import os
import platform
import socket
import traceback
from collections.abc import Mapping
from typing import BinaryIO

from horovod.runner import messages
from horovod.runner.errors import RankFailure

DESCRIPTOR = "HOROVOD_TASK_FD"


def main(environment: Mapping[str, str] = os.environ) -> None:
    if DESCRIPTOR not in environment:
        raise SystemExit(f"{DESCRIPTOR} is not set: horovod.run starts this module, nobody else")
    with (
        socket.socket(fileno=int(environment[DESCRIPTOR])) as connection,
        connection.makefile("rwb") as stream,
    ):
        connection.set_inheritable(False)  # children of the function do not get it
        run_task(stream, environment)


def run_task(stream: BinaryIO, environment: Mapping[str, str]) -> None:
    """Answers one call. Raises what the function raised, after the caller has been told."""
    try:
        fn, args, kwargs = messages.decode_call(messages.receive(stream))
        outcome = messages.encode_value(fn(*args, **kwargs))
    except BaseException as error:
        messages.send(stream, messages.encode_failure(_failure(error, environment)))
        raise
    messages.send(stream, outcome)


def _failure(error: BaseException, environment: Mapping[str, str]) -> RankFailure:
    # The first frame is run_task's own, of which the user knows nothing.
    frames = error.__traceback__ and error.__traceback__.tb_next
    return RankFailure(
        rank=int(environment.get("HOROVOD_RANK", 0)),
        host=environment.get("HOROVOD_HOSTNAME") or platform.node(),
        summary=traceback.format_exception_only(type(error), error)[-1].strip(),
        traceback="".join(traceback.format_exception(type(error), error, frames)),
    )


if __name__ == "__main__":
    main()
