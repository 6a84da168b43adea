# SPDX-License-Identifier: Apache-2.0
"""Arrays in, handles out: the part of every operation that comes before and after the library.

A call keeps its arrays alive until it is synchronized. Thread: any, one handle on one thread.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from horovod.common import operations
from horovod.common.calls import Call, Calls, Place, share_of_rows
from horovod.common.packed_requests import PackedRequests
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.numpy import gpu_arrays
from horovod.numpy.arrays import as_array, as_target, describe

Array = np.ndarray[Any, Any]


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


class ArrayCall(Call):
    """One call on arrays."""

    def __init__(self, settings: Settings, values: Sequence[Any], is_group: bool) -> None:
        if not values:
            raise ValueError(f"{settings.label}: the list of arrays is empty")
        self.settings = settings
        self.values = values
        self.is_group = is_group
        set_id = process_set_id(settings.process_set)
        convert = as_target if settings.place is Place.in_place else as_array
        self.arrays = [convert(value, settings.name or settings.label) for value in values]
        self.sources = [*map(_row_major, self.arrays)]
        self.has_gpu = any(map(gpu_arrays.is_array, self.sources))
        self.streams = [_stream_of(source) for source in self.sources] if self.has_gpu else []
        self.targets = [] if settings.place is Place.allocated else self._make_targets()
        count = len(values)
        parts = [f"_{place}of{count}" for place in range(1, count + 1)] if is_group else [""]
        super().__init__(settings.label, settings.name, parts, set_id)
        self.requests = self._pack()

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

    def await_tickets(self) -> list[Exception | None]:
        if not self.has_gpu:
            return [operations.wait(ticket) for ticket in self.tickets]
        return [*map(_wait_for, self.tickets, self.sources, self.streams)]

    def take_results(self) -> Any:
        results = self._results()
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
    """Room for this rank's rows."""
    if source.ndim == 0:
        raise ValueError("reducescatter shares out rows, but the array is a scalar")
    return _empty(source, (share_of_rows(source.shape[0], process_set), *source.shape[1:]))


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


calls = Calls()
poll = calls.poll


def start(settings: Settings, values: Sequence[Any], *, is_group: bool = False) -> int:
    """Submits the arrays and returns one handle for all."""
    return calls.start_alone(ArrayCall(settings, values, is_group))


def run(settings: Settings, values: Sequence[Any], *, is_group: bool = False) -> Any:
    """As `start` and `synchronize`, with less waking up of threads."""
    call = ArrayCall(settings, values, is_group)
    submit = operations.submit if call.has_gpu else operations.submit_and_wait
    return calls.finish(calls.start(call, submit))


def synchronize(handle: int) -> Any:
    """Waits for the operation and returns its result, a list for a group.

    Raises HorovodInternalError where the ranks disagree or one of them is gone. None for a handle
    that is not known, or was synchronized already.
    """
    return calls.finish(handle) if handle in calls.by_handle else None
