# SPDX-License-Identifier: Apache-2.0
"""Arrays in, handles out: the part of every operation that comes before and after the library.

A call keeps its arrays alive until it is synchronized. Thread: any, one handle on one thread.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from horovod.common import operations
from horovod.common.held_back import Held, held_back
from horovod.common.names import names_in_use, unnamed
from horovod.common.packed_requests import PackedRequests
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.numpy import gpu_arrays
from horovod.numpy.arrays import as_array, as_target, describe

Array = np.ndarray[Any, Any]


class Place(enum.Enum):
    """Where results go."""

    in_place = enum.auto()  # over the input
    beside = enum.auto()  # into new arrays of the same shape
    share = enum.auto()  # into new arrays with this rank's share of the rows
    allocated = enum.auto()  # into memory of the library, because only it learns the shape


@dataclass
class Settings:
    """One call but its arrays; never changed. `label` is the operation in names and messages,
    `reduce_op` the library's number."""

    label: str
    name: str | None
    op: int
    place: Place
    reduce_op: int = 0
    root: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    process_set: ProcessSet = global_process_set
    splits: tuple[int, ...] | None = None  # of an alltoall, which then gives the received ones too


class Call:
    """One call, from its submission until it is synchronized."""

    def __init__(self, settings: Settings, values: Sequence[Any], is_group: bool) -> None:
        if not values:
            raise ValueError(f"{settings.label}: the list of arrays is empty")
        self.settings = settings
        self.values = values
        self.is_group = is_group
        self.set_id = process_set_id(settings.process_set)
        convert = as_target if settings.place is Place.in_place else as_array
        self.arrays = [convert(value, settings.name or settings.label) for value in values]
        self.sources = [*map(_row_major, self.arrays)]
        self.has_gpu = any(map(gpu_arrays.is_array, self.sources))
        self.streams = [_stream_of(source) for source in self.sources] if self.has_gpu else []
        self.targets = [] if settings.place is Place.allocated else self._make_targets()
        self.name = self._choose_name()
        count = len(values)
        parts = [f"_{place}of{count}" for place in range(1, count + 1)] if is_group else [""]
        self.names = [(self.set_id, self.name + part) for part in parts]
        self.requests = self._pack()
        self.tickets: list[int] = []
        self.error: Exception | None = None  # of the submission, where it was held back
        self.behind: Held | None = None

    def _choose_name(self) -> str:
        label, name = self.settings.label, self.settings.name
        return unnamed.next_name(label, self.set_id) if name is None else f"{label}.{name}"

    def _make_targets(self) -> list[Array]:
        if self.settings.place is Place.in_place:
            return self.sources
        if self.settings.place is Place.beside:
            return [_empty(source, source.shape) for source in self.sources]
        return [_share(source, self.settings.process_set) for source in self.sources]

    def _pack(self) -> PackedRequests:
        settings = self.settings
        inputs = [describe(source) for source in self.sources]
        outputs = inputs
        if self.targets is not self.sources:
            outputs = [describe(target) for target in self.targets]
        return PackedRequests(
            [name for _, name in self.names],
            inputs,
            outputs,
            op=settings.op,
            reduce_op=settings.reduce_op,
            root=settings.root,
            prescale=settings.prescale,
            postscale=settings.postscale,
            groups=[int(self.is_group)] * len(inputs),
            process_set=self.set_id,
            splits=settings.splits or (),
        )

    def submit(self) -> None:
        """After it was held back."""
        try:
            self.tickets = operations.submit(self.requests.address, self.requests.count)
        except Exception as error:  # is raised where the call is synchronized
            self.error = error
        self.behind = None

    def wait(self) -> list[Exception | None]:
        while self.behind is not None:
            operations.wait_for_held_back()
        if self.error is not None:
            return [self.error]
        if not self.has_gpu:
            return [operations.wait(ticket) for ticket in self.tickets]
        return [*map(_wait_for, self.tickets, self.sources, self.streams)]

    def collect(self, errors: list[Exception | None]) -> Any:
        """Gives the tickets back, and raises the first failure or returns the result."""
        try:
            for error in filter(None, errors):
                raise error
            results = self._results()
        finally:
            for ticket in self.tickets:
                operations.release(ticket)
        return results if self.is_group or self.settings.splits is not None else results[0]

    def _results(self) -> Any:
        if self.settings.place is Place.in_place:
            for array, target in zip(self.arrays, self.targets, strict=True):
                if array is not target:
                    array[...] = target
            return list(self.values)
        if self.settings.place is not Place.allocated:
            return self.targets
        received = []
        if self.settings.splits is not None:
            splits = operations.received_splits(self.tickets[0])
            received.append(np.array(splits, dtype=np.int32))
        tickets, self.tickets = self.tickets, []
        outputs = [_take(*pair) for pair in zip(tickets, self.sources, strict=True)] + received
        return outputs if self.settings.splits is None else tuple(outputs)


def _share(source: Array, process_set: ProcessSet) -> Array:
    """Room for this rank's rows: the first ranks have one more where they do not come out even."""
    if source.ndim == 0:
        raise ValueError("reducescatter shares out rows, but the array is a scalar")
    rows, longer = divmod(source.shape[0], process_set.size() or 1)
    rows += (process_set.rank() or 0) < longer
    return _empty(source, (rows, *source.shape[1:]))


def _row_major(array: Any) -> Any:
    if gpu_arrays.is_array(array):
        return gpu_arrays.contiguous(array)
    return np.require(array, requirements=["C", "A"])


def _empty(like: Any, shape: tuple[int, ...]) -> Any:
    if gpu_arrays.is_array(like):
        return gpu_arrays.empty(like, shape)
    return np.empty(shape, dtype=like.dtype)


def _stream_of(array: Any) -> int:
    return gpu_arrays.current_stream(array) if gpu_arrays.is_array(array) else 0


def _wait_for(ticket: int, source: Any, submitted_on: int) -> Exception | None:
    if gpu_arrays.is_array(source):
        return gpu_arrays.wait_for(ticket, source, submitted_on)
    return operations.wait(ticket)


def _take(ticket: int, of: Any) -> Any:
    """The result in memory of the library, which an array of the host keeps until it is gone."""
    source = operations.result(ticket)
    if source.device_type == gpu_arrays.CUDA:
        return gpu_arrays.copy_result(source, of, ticket)
    dtype = of.dtype
    shape = source.shape[: source.ndim]
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        operations.release(ticket)
        return np.empty(shape, dtype=dtype)
    memory = (ctypes.c_char * size).from_address(source.data)
    weakref.finalize(memory, operations.release, ticket).atexit = False
    return np.frombuffer(memory, dtype=dtype).reshape(shape)


_calls: dict[int, Call] = {}
_handles = itertools.count(1)
_unnamed_calls: dict[tuple[str, int], Call] = {}  # the last of each name and process set


def start(settings: Settings, values: Sequence[Any], *, is_group: bool = False) -> int:
    """Submits the arrays and returns one handle for all."""
    call = Call(settings, values, is_group)
    handle = _start(call, operations.submit)
    if settings.name is not None:
        names_in_use.add(call.names)
    return handle


def run(settings: Settings, values: Sequence[Any], *, is_group: bool = False) -> Any:
    """As `start` and `synchronize`, with less waking up of threads."""
    call = Call(settings, values, is_group)
    return synchronize(
        _start(call, operations.submit if call.has_gpu else operations.submit_and_wait)
    )


def _start(call: Call, submit: Callable[[int, int], list[int]]) -> int:
    is_named = call.settings.name is not None
    if is_named:
        names_in_use.check(call.names)
    handle = next(_handles)
    # Before submitting: after a Ctrl-C in the middle the memory may be in use, and stays here.
    _calls[handle] = call
    if not is_named and _is_held_back(call):
        return handle
    try:
        call.tickets = submit(call.requests.address, call.requests.count)
    except Exception:
        _forget(handle)
        if not is_named:
            unnamed.step_back(call.settings.label, call.set_id)
        raise
    return handle


def _is_held_back(call: Call) -> bool:
    """Where the unnamed call before it of the same name is in flight, this one follows it."""
    key = (call.name, call.set_id)
    earlier = _unnamed_calls.get(key)
    _unnamed_calls[key] = call
    if earlier is None or operations.has_ended(earlier):
        return False
    call.behind = earlier
    held_back.add((call.settings.label, call.set_id), call)
    return True


def _forget(handle: int) -> None:
    call = _calls.pop(handle)
    if _unnamed_calls.get((call.name, call.set_id)) is call:
        del _unnamed_calls[call.name, call.set_id]


def poll(handle: int) -> bool:
    """True when the operation has ended, so that `synchronize` will not block."""
    call = _calls.get(handle)
    if call is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    operations.submit_held_back()
    has_ended = operations.has_ended(call)
    if has_ended:
        names_in_use.remove(call.names)
    return has_ended


def synchronize(handle: int) -> Any:
    """Waits for the operation and returns its result, a list for a group.

    Raises HorovodInternalError where the ranks disagree or one of them is gone. None for a handle
    that is not known, or was synchronized already.
    """
    call = _calls.get(handle)
    if call is None:
        return None
    errors = call.wait()  # after a Ctrl-C the call stays, because its memory is in use
    _forget(handle)
    return call.collect(errors)
