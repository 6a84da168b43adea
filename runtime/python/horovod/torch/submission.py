# SPDX-License-Identifier: Apache-2.0
"""Tensors in, handles out: the part of every operation that comes before and after the library.

A call keeps its tensors alive until it is synchronized. Thread: any, one handle on one thread.
"""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
from collections.abc import Callable, Sequence
from ctypes import c_uint64
from dataclasses import dataclass
from typing import Any

import torch

from horovod.common import operations
from horovod.common.calls import Call, Calls, Place, share_of_rows
from horovod.common.library import library
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


class TensorCall(Call):
    """One call on tensors."""

    __slots__ = ("batch", "device", "settings", "sources", "stream", "targets")

    def __init__(self, batch: Batch, settings: Settings) -> None:
        for tensor in batch.tensors:
            check_supported(tensor, batch.name or batch.label)
        self.batch = batch
        self.settings = settings
        self.sources = [tensor.detach().contiguous() for tensor in batch.tensors]
        self.device = _common_device(self.sources)
        self.stream = _stream_of(self.device)
        self.targets = _targets(self.sources, settings)  # empty: the library allocates the results
        set_id = process_set_id(settings.process_set)
        super().__init__(batch.label, batch.name, batch.parts, set_id)
        self.requests = self._pack()

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
            process_set=self.set_id,
            splits=settings.splits or (),
        )

    def await_tickets(self) -> list[Exception | None]:
        if self.device == gpu.HOST:
            return [operations.wait(ticket) for ticket in self.tickets]
        return _wait_on_streams(self)

    def take_results(self) -> list[torch.Tensor]:
        if not self.targets:
            return self._results()
        if self.settings.place is Place.in_place:
            _copy_back(self.batch.tensors, self.targets)
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


def _copy_back(tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
    """Puts results into those tensors that are not contiguous, so that a copy has travelled."""
    for tensor, result in zip(tensors, results, strict=True):
        if not tensor.is_contiguous():
            with torch.no_grad():
                tensor.copy_(result)


def _common_device(tensors: Sequence[torch.Tensor]) -> int | None:
    """The number of their GPU, or gpu.HOST; None where they are not in one place."""
    if len(tensors) == 1:
        return tensors[0].get_device()
    devices = {tensor.get_device() for tensor in tensors}
    return devices.pop() if len(devices) == 1 else None


def _stream_of(device: int | None) -> int:
    """The current one of a GPU; 0 where `device` is none."""
    return 0 if device is None or device == gpu.HOST else gpu.current_stream(device)


def _wait_on_streams(call: TensorCall) -> list[Exception | None]:
    """Of a GPU's tensors, the current stream waits and not the host. Where that is another stream
    than the one on which the call was made, their memory then belongs to both, so that it is given
    to no other use before."""
    errors: list[Exception | None] = [None] * len(call.tickets)
    tickets = (c_uint64 * len(call.tickets))(*call.tickets)
    stream = _stream_of(call.device)
    if call.device is None or not operations.wait_all(tickets, stream):
        errors = [*map(_wait_for, call.tickets, call.sources)]
    if call.device is None or stream != call.stream:
        for tensor in (*call.sources, *call.targets):
            if not tensor.is_cpu:
                gpu.keep_for_current_stream(tensor)
    return errors


def _wait_for(ticket: int, source: torch.Tensor) -> Exception | None:
    if source.is_cpu:
        return operations.wait(ticket)
    return operations.wait_on_stream(ticket, gpu.current_stream(source.get_device()))


def _targets(sources: list[torch.Tensor], settings: Settings) -> list[torch.Tensor]:
    if settings.place is Place.beside:
        return [torch.empty_like(source) for source in sources]
    if settings.place is Place.in_place:
        return sources
    if settings.place is Place.share:
        return [_share(source, settings.process_set) for source in sources]
    return []


def _share(source: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Room for this rank's rows."""
    if source.dim() == 0:
        raise ValueError("reducescatter shares out rows, but the tensor is a scalar")
    shape = (share_of_rows(source.shape[0], process_set), *source.shape[1:])
    return torch.empty(shape, dtype=source.dtype, device=source.device)


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


calls = Calls()
poll = calls.poll


def start(batch: Batch, settings: Settings) -> int:
    """Submits the tensors and returns one handle for all."""
    return calls.start_alone(TensorCall(batch, settings))


def run(batch: Batch, settings: Settings) -> list[torch.Tensor]:
    """As `start` and `synchronize`, with less waking up of threads."""
    call = TensorCall(batch, settings)
    submit = operations.submit_and_wait
    if call.device != gpu.HOST:
        submit = _awaiting_on_stream(call.device)
    return calls.finish(calls.start(call, submit))


def _awaiting_on_stream(device: int | None) -> Callable[[int, int], operations.Submitted]:
    """How a call for tensors of GPUs is submitted that is awaited at once."""
    if device is None:
        return operations.submit
    stream = gpu.current_stream(device)
    return functools.partial(operations.submit_and_wait_on_stream, stream=stream)


def synchronize(handle: int) -> Any:
    """Waits for the operation and returns its result, a list for a group.

    Raises HorovodInternalError where the ranks disagree or one of them is gone. None for a handle
    that is not known, or was synchronized already.
    """
    call = calls.by_handle.get(handle)
    if not isinstance(call, TensorCall):
        return None
    outputs = calls.finish(handle)
    if call.settings.returns_splits:
        return tuple(outputs)
    return outputs[0] if call.batch.is_one else outputs
