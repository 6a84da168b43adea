# SPDX-License-Identifier: Apache-2.0
"""Tells the launcher why this process is about to fail, while it can still speak.

Teardown after an exception can take long, and ranks that only lost a peer may exit first; what was
reported, not who exited first, tells the culprit from its victims.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import NoReturn

from horovod.common import gpu_memory
from horovod.common.exceptions import HorovodInternalError
from horovod.common.library import library

_REPORT_EXCEPTION = library.enum("HVD_REPORT_EXCEPTION")
_REPORT_PEER_LOST = library.enum("HVD_REPORT_PEER_LOST")
_NO_PEER = -1


class CrashReport:
    """Chains sys.excepthook and sys.exit. Thread: the hooks run on the main thread."""

    def __init__(self) -> None:
        self._pid = 0  # of the process that installed the hooks; 0: not installed
        self._previous = sys.excepthook
        self._is_reported = False
        self._exits_badly = False
        self._typed: BaseException | None = None  # the last exception of a console's line

    def install(self) -> None:
        """The first call in a process chains the hooks; later ones do nothing."""
        if self._pid == os.getpid():
            return
        is_chained = self._pid != 0  # in the parent of this fork
        self._pid = os.getpid()
        if not is_chained:
            self._previous = sys.excepthook
            sys.excepthook = self._on_uncaught
            sys.exit = self._exit

    def is_dying(self) -> bool:
        """At exit: whether the process ends by an uncaught exception, also where another hook has
        replaced this one, or by a call of sys.exit with a status of failure."""
        last: BaseException | None = getattr(sys, "last_value", None)
        if last is self._typed or (last is not None and _is_typed(last)):
            last = None
        if last is not None and not self._is_reported:
            self._report(last)
        return last is not None or self._is_reported or self._exits_badly

    def _exit(self, status: object = None, /) -> NoReturn:
        self._exits_badly = status not in (None, 0)
        raise SystemExit(status)

    def _on_uncaught(
        self,
        kind: type[BaseException],
        value: BaseException,
        trace: TracebackType | None,
    ) -> None:
        # Python sets last_value before it calls this for an exception that ends the program; a
        # program that calls this itself, to print an exception, goes on.
        is_end = getattr(sys, "last_value", None) is value and os.getpid() == self._pid
        if is_end and (_is_typed(value) or _is_console(sys._getframe().f_back)):
            self._typed = value
            is_end = False
        # Asked before the launcher ends the other ranks, which may use the same GPU.
        use = gpu_memory.describe() if is_end and gpu_memory.is_exhausted(value) else []
        if is_end:
            self._report(value)
        self._previous(kind, value, trace)
        for line in use:
            print(line, file=sys.stderr, flush=True)

    def _report(self, value: BaseException) -> None:
        if os.getpid() != self._pid:  # a forked child is not the rank
            return
        self._is_reported = True
        if is_peer_lost(value):
            library.hvd_report(_REPORT_PEER_LOST, _NO_PEER, _as_bytes(str(value)))
        elif not isinstance(value, KeyboardInterrupt):  # all ranks were asked to stop
            library.hvd_report(_REPORT_EXCEPTION, _NO_PEER, _as_bytes(_describe(value)))


# They run the lines of an interactive console; an exception of such a line ends no program, but
# sets last_value too.
_CONSOLES = ("code", "IPython.core.interactiveshell")


def _is_typed(value: BaseException) -> bool:
    """Whether the exception is that of a console's line."""
    trace = value.__traceback__
    return trace is not None and trace.tb_frame.f_globals.get("__name__") in _CONSOLES


def _is_console(frame: FrameType | None) -> bool:
    """Whether a console is among the callers: of a syntax error it shows no traceback."""
    while frame is not None:
        if frame.f_globals.get("__name__") in _CONSOLES:
            return True
        frame = frame.f_back
    return False


def _describe(value: BaseException) -> str:
    return "".join(traceback.format_exception(type(value), value, value.__traceback__))


def _as_bytes(text: str) -> bytes:
    return text.encode(errors="replace")


_peer_lost_tests: list[Callable[[BaseException], bool]] = [
    lambda error: isinstance(error, HorovodInternalError) and error.peer_lost
]


def recognise_peer_lost(test: Callable[[BaseException], bool]) -> None:
    """For a front end whose framework raises errors of its own when a rank is lost."""
    _peer_lost_tests.append(test)


def is_peer_lost(value: BaseException | None) -> bool:
    """True where an exception, or what led to it, is the loss of another rank."""
    seen: set[int] = set()
    while value is not None and id(value) not in seen:
        if any(test(value) for test in _peer_lost_tests):
            return True
        seen.add(id(value))
        value = value.__cause__ or (None if value.__suppress_context__ else value.__context__)
    return False


crash_report = CrashReport()
