# SPDX-License-Identifier: Apache-2.0
"""Tensors in, handles out: the part of every operation that comes before and after the library.

A call keeps its tensors alive until it is synchronized. Thread: any, one handle on one thread.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import itertools
import math
import weakref
from collections.abc import Callable, Sequence
from ctypes import c_uint64
from dataclasses import dataclass
from typing import Any

import torch

from horovod.common import operations
from horovod.common.held_back import Held, held_back
from horovod.common.library import library
from horovod.common.names import names_in_use, unnamed
from horovod.common.packed_requests import Memory, PackedRequests
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.torch import gpu

DTYPES: dict[torch.dtype, int] = {
    torch.bool: library.enum("HVD_BOOL"),
    torch.uint8: library.enum("HVD_UINT8"),
    torch.int8: library.enum("HVD_INT8"),
    torch.uint16: library.enum("HVD_UINT16"),
    torch.int16: library.enum("HVD_INT16"),
    torch.uint32: library.enum("HVD_UINT32"),
    torch.int32: library.enum("HVD_INT32"),
    torch.uint64: library.enum("HVD_UINT64"),
    torch.int64: library.enum("HVD_INT64"),
    torch.float16: library.enum("HVD_FLOAT16"),
    torch.bfloat16: library.enum("HVD_BFLOAT16"),
    torch.float32: library.enum("HVD_FLOAT32"),
    torch.float64: library.enum("HVD_FLOAT64"),
}
_TAKES_GPUS = library.hvd_feature_value(library.enum("HVD_FEATURE_CUDA")) != 0
_DEVICES = ("cpu", "cuda") if _TAKES_GPUS else ("cpu",)
_LARGEST_COPY = 64 << 10  # of a result in memory of the library, in bytes
_FROM_LIBRARY = {value: dtype for dtype, value in DTYPES.items()}


def check_supported(tensor: torch.Tensor, name: str) -> None:
    """Raises where the library cannot take this tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise ValueError(
            f"{name}: the tensor has the layout {tensor.layout}; use hvd.sparse_allreduce_async, "
            f"or tensor.to_dense()"
        )
    if tensor.device.type not in _DEVICES:
        raise NotImplementedError(
            f"{name}: the tensor is on {tensor.device}, and this build of horovod takes tensors of "
            f"{'the CPU and of NVIDIA GPUs' if _TAKES_GPUS else 'the CPU'} only; pass tensor.cpu()"
        )
    if tensor.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(f"{name}: tensors of {tensor.dtype} are not supported; use one of {names}")


def describe(tensor: torch.Tensor) -> Memory:
    """The library's view of a contiguous tensor, which is ready on the current stream."""
    if tensor.is_cpu:
        return tensor.data_ptr(), tensor.shape, DTYPES[tensor.dtype]
    index = tensor.get_device()
    place = (tensor.data_ptr(), tensor.shape, DTYPES[tensor.dtype])
    return (*place, gpu.CUDA, index, gpu.current_stream(index))


class Place(enum.Enum):
    """Where results go."""

    in_place = enum.auto()  # over the input
    beside = enum.auto()  # into new tensors of the same shape
    share = enum.auto()  # into new tensors with this rank's share of the rows
    allocated = enum.auto()  # into memory of the library, because only it learns the shape


@dataclass(slots=True)  # frozen ones are made at half the speed
class Settings:
    """What the requests of one call have in common; never changed. `reduce_op` is the library's
    number."""

    op: int
    place: Place
    reduce_op: int = 0
    root: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    process_set: ProcessSet = global_process_set
    splits: tuple[int, ...] | None = None  # of an alltoall
    returns_splits: bool = False  # an alltoall gives those that it received too


@dataclass(slots=True)
class Batch:
    """The tensors of one call and their names; made by `one`, `group` and `each`, never changed."""

    label: str  # of the operation in messages
    name: str | None  # None: the call gets one when it is submitted
    parts: list[str]  # the name of each tensor, or what follows the name of the call
    tensors: Sequence[torch.Tensor]
    groups: Sequence[int]  # tensors with the same number, which is not 0, complete as a unit
    is_one: bool = False  # the result is a tensor and no list


def one(label: str, name: str | None, tensor: torch.Tensor) -> Batch:
    """`label` is the operation's name in messages; a call without `name` gets one."""
    return Batch(label, name, [""], (tensor,), (0,), is_one=True)


def group(label: str, name: str | None, tensors: Sequence[torch.Tensor]) -> Batch:
    """Tensors that complete as a unit."""
    count = len(tensors)
    if count == 0:
        raise ValueError(f"{label}: the list of tensors is empty")
    parts = [f"_{index}of{count}" for index in range(1, count + 1)]
    return Batch(label, name, parts, list(tensors), [1] * count)


def each(
    label: str,
    named: Sequence[tuple[str, torch.Tensor]],
    name: str | None = "",
    groups: Sequence[int] | None = None,
) -> Batch:
    """Tensors that complete one by one, or as the units that `groups` says. They are submitted
    together to save time. Their names begin with `name`."""
    parts = [f".{part}" for part, _ in named]
    tensors = [tensor for _, tensor in named]
    return Batch(label, name, parts, tensors, groups or [0] * len(named))


class Call:
    """One call, from its submission until it is synchronized."""

    __slots__ = (
        "batch",
        "behind",
        "device",
        "error",
        "name",
        "names",
        "requests",
        "settings",
        "sources",
        "targets",
        "tickets",
    )

    def __init__(self, batch: Batch, settings: Settings) -> None:
        for tensor in batch.tensors:
            check_supported(tensor, batch.name or batch.label)
        self.batch = batch
        self.settings = settings
        self.sources = [tensor.detach().contiguous() for tensor in batch.tensors]
        self.device = _common_device(self.sources)
        self.targets = _targets(self.sources, settings)  # empty: the library allocates the results
        self.name = _name_of(batch, settings)
        process_set = process_set_id(settings.process_set)
        self.names = [(process_set, self.name + part) for part in batch.parts]
        self.requests = self._pack()
        self.tickets: list[int] = []
        self.error: Exception | None = None  # of the submission, where it was held back
        self.behind: Held | None = None

    def _pack(self) -> PackedRequests:
        settings = self.settings
        inputs = [describe(source) for source in self.sources]
        is_in_place = self.targets is self.sources
        return PackedRequests(
            [name for _, name in self.names],
            inputs,
            inputs if is_in_place else [describe(target) for target in self.targets],
            op=settings.op,
            reduce_op=settings.reduce_op,
            root=settings.root,
            prescale=settings.prescale,
            postscale=settings.postscale,
            groups=self.batch.groups,
            process_set=self.names[0][0],
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
        if self.device == gpu.HOST:
            return [operations.wait(ticket) for ticket in self.tickets]
        return _wait_on_streams(self)

    def collect(self, errors: list[Exception | None]) -> list[torch.Tensor]:
        """Gives the tickets back, and raises the first failure or returns the results."""
        try:
            for error in errors:
                if error is not None:
                    raise error
            if not self.targets:
                return self._results()
        finally:
            for ticket in self.tickets:
                operations.release(ticket)
        if self.settings.place is Place.in_place:
            self._copy_back()
            return list(self.batch.tensors)
        return self.targets

    def _results(self) -> list[torch.Tensor]:
        """Those in memory of the library."""
        splits = []
        if self.settings.returns_splits:
            received = operations.received_splits(self.tickets[0])
            splits.append(torch.tensor(received, dtype=torch.int32))
        tickets, self.tickets = self.tickets, []
        return [_take_result(ticket) for ticket in tickets] + splits

    @torch.no_grad()
    def _copy_back(self) -> None:
        for result, target in zip(self.batch.tensors, self.targets, strict=True):
            if result.data_ptr() != target.data_ptr():
                result.copy_(target)


def _common_device(tensors: Sequence[torch.Tensor]) -> int | None:
    """The number of their GPU, or gpu.HOST; None where they are not in one place."""
    if len(tensors) == 1:
        return tensors[0].get_device()
    devices = {tensor.get_device() for tensor in tensors}
    return devices.pop() if len(devices) == 1 else None


def _wait_on_streams(call: Call) -> list[Exception | None]:
    """Of a GPU's tensors, the current stream waits and not the host. Their memory then belongs to
    that stream too, so that it is given to no other use before."""
    errors: list[Exception | None] = [None] * len(call.tickets)
    tickets = (c_uint64 * len(call.tickets))(*call.tickets)
    if call.device is None or not operations.wait_all(tickets, gpu.current_stream(call.device)):
        errors = [*map(_wait_for, call.tickets, call.sources)]
    for tensor in (*call.sources, *call.targets):
        if not tensor.is_cpu:
            gpu.keep_for_current_stream(tensor)
    return errors


def _wait_for(ticket: int, source: torch.Tensor) -> Exception | None:
    if source.is_cpu:
        return operations.wait(ticket)
    return operations.wait_on_stream(ticket, gpu.current_stream(source.get_device()))


def _name_of(batch: Batch, settings: Settings) -> str:
    if batch.name is None:
        number = process_set_id(settings.process_set)
        return unnamed.next_name(batch.label, number)
    return f"{batch.label}.{batch.name}" if batch.name else batch.label


def _targets(sources: list[torch.Tensor], settings: Settings) -> list[torch.Tensor]:
    if settings.place is Place.beside:
        return [torch.empty_like(source) for source in sources]
    if settings.place is Place.in_place:
        return sources
    if settings.place is Place.share:
        return [_share(source, settings.process_set) for source in sources]
    return []


def _share(source: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Room for this rank's rows: the first ranks have one more where they do not come out even."""
    if source.dim() == 0:
        raise ValueError("reducescatter shares out rows, but the tensor is a scalar")
    process_set_id(process_set)
    rows, longer = divmod(source.shape[0], process_set.size() or 1)
    rows += (process_set.rank() or 0) < longer
    return torch.empty((rows, *source.shape[1:]), dtype=source.dtype, device=source.device)


def _take_result(ticket: int) -> torch.Tensor:
    """The result, and gives the ticket back: at once where a copy is cheap, else with the tensor's
    memory, which is then that of the library."""
    try:
        source = operations.result(ticket)
        if source.device_type == gpu.CUDA:
            tensor = gpu.copy_result(source, _FROM_LIBRARY[source.dtype], ticket)
            ticket = 0
            return tensor
        shape, dtype = source.shape[: source.ndim], _FROM_LIBRARY[source.dtype]
        size = math.prod(shape) * dtype.itemsize
        if size > _LARGEST_COPY:
            memory = (ctypes.c_char * size).from_address(source.data)
            weakref.finalize(memory, operations.release, ticket).atexit = False
            ticket = 0
            return torch.frombuffer(memory, dtype=dtype).view(shape)
        tensor = torch.empty(shape, dtype=dtype)
        if size > 0:
            ctypes.memmove(tensor.data_ptr(), source.data, size)
        return tensor
    finally:
        if ticket != 0:
            operations.release(ticket)


_calls: dict[int, Call] = {}
_handles = itertools.count(1)
_unnamed_calls: dict[tuple[str, int], Call] = {}  # the last of each name and process set


def start(batch: Batch, settings: Settings) -> int:
    """Submits the tensors and returns one handle for all."""
    handle = _start(batch, settings, operations.submit)
    if batch.name is not None:
        names_in_use.add(_calls[handle].names)
    return handle


def run(batch: Batch, settings: Settings) -> list[torch.Tensor]:
    """As `start` and `synchronize`, with less waking up of threads."""
    return _finish(_start(batch, settings, operations.submit_and_wait, is_awaited=True))


def _start(
    batch: Batch,
    settings: Settings,
    submit: Callable[[int, int], list[int]],
    *,
    is_awaited: bool = False,
) -> int:
    call = Call(batch, settings)
    if is_awaited and call.device != gpu.HOST:
        submit = _awaiting_on_stream(call.device)
    if batch.name is not None:
        names_in_use.check(call.names)
    handle = next(_handles)
    # Before submitting: after a Ctrl-C in the middle the memory may be in use, and stays here.
    _calls[handle] = call
    if batch.name is None and _is_held_back(call):
        return handle
    try:
        call.tickets = submit(call.requests.address, call.requests.count)
    except Exception:
        _forget(handle)
        if batch.name is None:
            unnamed.step_back(batch.label, call.names[0][0])
        raise
    return handle


def _awaiting_on_stream(device: int | None) -> Callable[[int, int], list[int]]:
    """How a call for tensors of GPUs is submitted that is awaited at once."""
    if device is None:
        return operations.submit
    stream = gpu.current_stream(device)
    return functools.partial(operations.submit_and_wait_on_stream, stream=stream)


def _is_held_back(call: Call) -> bool:
    """Where the unnamed call before it of the same name is in flight, this one follows it."""
    key = (call.name, call.settings.process_set.process_set_id or 0)
    earlier = _unnamed_calls.get(key)
    _unnamed_calls[key] = call
    if earlier is None or operations.has_ended(earlier):
        return False
    call.behind = earlier
    held_back.add((call.batch.label, key[1]), call)
    return True


def _forget(handle: int) -> None:
    call = _calls.pop(handle, None)
    if call is not None and call.batch.name is None:
        key = (call.name, call.names[0][0])
        if _unnamed_calls.get(key) is call:
            del _unnamed_calls[key]


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
    outputs = _finish(handle)
    if call.settings.returns_splits:
        return tuple(outputs)
    return outputs[0] if call.batch.is_one else outputs


def _finish(handle: int) -> list[torch.Tensor]:
    call = _calls[handle]
    errors = call.wait()  # after a Ctrl-C the call stays, because its memory is in use
    _forget(handle)
    return call.collect(errors)
