# SPDX-License-Identifier: Apache-2.0
"""Operations that have the name of an earlier one still in flight, and wait until it has ended.

Only unnamed operations come here, and only when more than a whole period of their names is
outstanding. Their names may not depend on what has ended on this rank, so that all ranks choose the
same, and the caller may not block, because the operations of other ranks may come in another order.
A rank submits what it holds back in every call that polls or waits.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Hashable
from ctypes import byref, c_size_t, c_uint64
from typing import Protocol

from horovod.common.library import library

_IN_PROGRESS = library.enum("HVD_IN_PROGRESS")


class Held(Protocol):
    """An operation whose tickets come later."""

    tickets: list[int]
    error: Exception | None  # of the submission
    behind: Held | None  # the earlier operation of the same name, until this one is submitted

    def submit(self) -> None:
        """Fills `tickets` or `error`, and sets `behind` to None. Raises nothing."""


def open_ticket(operation: Held, world: int) -> int | None:
    """A ticket of a submitted operation that has not ended; None where all have."""
    for ticket in operation.tickets:
        if library.hvd_poll(world, ticket) == _IN_PROGRESS:
            return ticket
    return None


def has_ended(operation: Held, world: int) -> bool:
    return operation.behind is None and open_ticket(operation, world) is None


class HeldBack:
    """First in, first out for each key. Thread: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.queues: dict[Hashable, deque[Held]] = defaultdict(deque)  # none is empty

    def add(self, key: Hashable, operation: Held) -> None:
        with self._lock:
            self.queues[key].append(operation)

    def submit_ready(self, world: int) -> None:
        """Submits whatever no longer waits for an earlier operation."""
        with self._lock:
            for key, queue in list(self.queues.items()):
                while queue and (not queue[0].behind or has_ended(queue[0].behind, world)):
                    queue.popleft().submit()
                if not queue:
                    del self.queues[key]

    def wait_beside(self, world: int, tickets: list[int], timeout_ms: int) -> None:
        """Blocks until one of the tickets, or what the first in a queue waits for, has ended."""
        with self._lock:
            fronts = [queue[0].behind for queue in self.queues.values()]
        blocking = [open_ticket(one, world) for one in fronts if one is not None]
        wanted = tickets + [ticket for ticket in blocking if ticket is not None]
        if not wanted or len(blocking) != len(wanted) - len(tickets):
            return  # something has ended meanwhile
        array = (c_uint64 * len(wanted))(*wanted)
        library.hvd_wait_any(world, array, len(wanted), timeout_ms, byref(c_size_t()))

    def fail_all(self, error: Exception) -> None:
        """They will not be submitted: the world has ended."""
        with self._lock:
            queues, self.queues = self.queues, defaultdict(deque)
        for queue in queues.values():
            for operation in queue:
                operation.error, operation.behind = error, None


held_back = HeldBack()
