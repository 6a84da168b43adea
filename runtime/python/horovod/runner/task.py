# SPDX-License-Identifier: Apache-2.0
"""`python -m horovod.runner.task`: a rank that runs a function of the process that started the job.

The rank reads a call from its agent, runs the function, and writes its outcome (`messages` has the
format). An exception is written as an outcome and then raised, so that the job ends as with any
failed rank.
"""

from __future__ import annotations

import os
import platform
import sys
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import BinaryIO, cast

from horovod.runner import messages
from horovod.runner.agent import Agent, AgentError, AgentStream
from horovod.runner.errors import RankFailure
from horovod.runner.rank_state import RankState, reporting


def main(environment: Mapping[str, str] = os.environ) -> None:
    try:
        agent = Agent(environment)
    except (OSError, AgentError) as error:
        raise SystemExit(f"horovod.runner.task: {error}") from None
    with AgentStream(agent) as stream:
        try:
            run_task(cast("BinaryIO", stream), environment)
        except Exception as error:
            frames = _frames_of_user(error)
            sys.last_value = error.with_traceback(frames)  # as Python does: it ends the program
            sys.excepthook(type(error), error, frames)
            raise SystemExit(1) from None


def run_task(stream: BinaryIO, environment: Mapping[str, str]) -> None:
    """Answers one call. Raises what the function raised, after the caller has been told."""
    call = messages.receive(stream)

    def send_state(state: RankState) -> None:
        messages.send(stream, messages.encode_state(state))

    try:
        fn, args, kwargs = messages.decode_call(call)
        with reporting(send_state, messages.state_seconds(call), environment):
            outcome = messages.encode_value(fn(*args, **kwargs))
    except BaseException as error:
        outcome = messages.encode_failure(_failure(error, environment))
        raise
    finally:
        messages.send(stream, outcome)


def _failure(error: BaseException, environment: Mapping[str, str]) -> RankFailure:
    return RankFailure(
        rank=int(environment.get("HOROVOD_RANK", 0)),
        host=environment.get("HOROVOD_HOSTNAME") or platform.node(),
        summary=traceback.format_exception_only(type(error), error)[-1].strip(),
        traceback="".join(traceback.format_exception(type(error), error, _frames_of_user(error))),
    )


def _frames_of_user(error: BaseException) -> TracebackType | None:
    """Without those of this file, of which the user knows nothing."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
        frames = frames.tb_next
    return frames


if __name__ == "__main__":
    main()
