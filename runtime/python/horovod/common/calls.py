# SPDX-License-Identifier: Apache-2.0
"""Calls of a front end, from their submission until they are synchronized, and their handles.

A front end derives from Call what it does with its tensors. Thread: any, one handle on one thread.
"""

from __future__ import annotations

import enum
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from ctypes import c_uint64
from typing import Any

from horovod.common import operations
from horovod.common.held_back import Held, held_back
from horovod.common.names import names_in_use, unnamed
from horovod.common.packed_requests import PackedRequests
from horovod.common.process_sets import ProcessSet

Submit = Callable[[int, int], operations.Submitted]


class Place(enum.Enum):
    """Where results go."""

    in_place = enum.auto()  # over the input
    beside = enum.auto()  # into new tensors of the same shape
    share = enum.auto()  # into new tensors with this rank's share of the rows
    allocated = enum.auto()  # into memory of the library, because only it learns the shape


def share_of_rows(rows: int, process_set: ProcessSet) -> int:
    """This rank's: the first ranks have one more where they do not come out even."""
    share, longer = divmod(rows, process_set.size() or 1)
    return share + ((process_set.rank() or 0) < longer)


class Call(ABC):
    """One call. `label` is the operation in names and messages; a call without `name` gets one."""

    __slots__ = (
        "behind",
        "error",
        "is_named",
        "is_well",
        "label",
        "name",
        "names",
        "requests",
        "set_id",
        "tickets",
    )

    requests: PackedRequests

    def __init__(self, label: str, name: str | None, parts: Sequence[str], set_id: int) -> None:
        """`parts` are what follows the call's name in those of its tensors."""
        self.label = label
        self.is_named = name is not None
        self.set_id = set_id
        if name is None:
            self.name = unnamed.next_name(label, set_id)
        else:
            self.name = f"{label}.{name}" if name else label
        self.names = [(set_id, self.name + part) for part in parts]
        self.tickets: list[int] = []
        self.is_well = False  # all are known to have ended well, or the stream waits for them
        self.error: Exception | None = None  # of the submission, where it was held back
        self.behind: Held | None = None

    @abstractmethod
    def await_tickets(self) -> list[Exception | None]:
        """Waits for the operations, or makes the current stream do so."""

    @abstractmethod
    def take_results(self) -> Any:
        """What the caller gets. Takes those tickets out of `tickets` that it gives back itself."""

    def submit(self) -> None:
        """After it was held back."""
        try:
            self.tickets, _ = operations.submit(self.requests.address, self.requests.count)
        except Exception as error:  # is raised where the call is synchronized
            self.error = error
        self.behind = None

    def wait(self) -> list[Exception | None]:
        while self.behind is not None:
            operations.wait_for_held_back()
        if self.error is not None:
            return [self.error]
        return [] if self.is_well else self.await_tickets()

    def collect(self, errors: list[Exception | None]) -> Any:
        """Gives the tickets back, and raises the first failure or returns the result."""
        try:
            for error in errors:
                if error is not None:
                    raise error
            return self.take_results()
        finally:
            operations.release_all((c_uint64 * len(self.tickets))(*self.tickets))


class Calls:
    """All calls of a front end that are not synchronized yet."""

    def __init__(self) -> None:
        self.by_handle: dict[int, Call] = {}
        self._handles = itertools.count(1)
        self._last_unnamed: dict[tuple[str, int], Call] = {}  # by name and process set

    def start(self, call: Call, submit: Submit) -> int:
        """Submits the call and returns its handle."""
        if call.is_named:
            names_in_use.check(call.names)
        handle = next(self._handles)
        # Before submitting: after a Ctrl-C in the middle the memory may be in use, and stays here.
        self.by_handle[handle] = call
        if not call.is_named and self._is_held_back(call):
            return handle
        try:
            call.tickets, call.is_well = submit(call.requests.address, call.requests.count)
        except Exception:
            self._forget(handle)
            if not call.is_named:
                unnamed.step_back(call.label, call.set_id)
            raise
        return handle

    def start_alone(self, call: Call) -> int:
        """As `start`, where others may come before it is synchronized."""
        handle = self.start(call, operations.submit)
        if call.is_named:
            names_in_use.add(call.names)
        return handle

    def _is_held_back(self, call: Call) -> bool:
        """Where the unnamed call before it of the same name is in flight, this one follows it."""
        key = (call.name, call.set_id)
        earlier = self._last_unnamed.get(key)
        self._last_unnamed[key] = call
        if earlier is None or operations.has_ended(earlier):
            return False
        call.behind = earlier
        held_back.add((call.label, call.set_id), call)
        return True

    def _forget(self, handle: int) -> None:
        call = self.by_handle.pop(handle, None)
        if call is not None and not call.is_named:
            key = (call.name, call.set_id)
            if self._last_unnamed.get(key) is call:
                del self._last_unnamed[key]

    def poll(self, handle: int) -> bool:
        """True when the operation has ended, so that `synchronize` will not block."""
        call = self.by_handle.get(handle)
        if call is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        operations.submit_held_back()
        has_ended = operations.has_ended(call)
        if has_ended:
            names_in_use.remove(call.names)
        return has_ended

    def finish(self, handle: int) -> Any:
        """Waits for the operation and returns its result. The handle is known."""
        call = self.by_handle[handle]
        errors = call.wait()  # after a Ctrl-C the call stays, because its memory is in use
        self._forget(handle)
        return call.collect(errors)
