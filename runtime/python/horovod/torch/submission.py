# SPDX-License-Identifier: Apache-2.0
"""Tensors in, handles out: the part of every operation that comes before and after the library.

A call keeps its tensors alive until it is synchronized. Thread: any, one handle on one thread.
"""

from __future__ import annotations

import ctypes
import enum
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from horovod.common import operations
from horovod.common.basics import basics
from horovod.common.library import Request, Tensor, library

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
_FROM_LIBRARY = {value: dtype for dtype, value in DTYPES.items()}


def check_supported(tensor: torch.Tensor, name: str) -> None:
    """Raises where the library cannot take this tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided:
        raise NotImplementedError(
            f"{name}: tensors of layout {tensor.layout} are not supported yet; pass "
            f"tensor.to_dense(), or sparse_as_dense=True to DistributedOptimizer"
        )
    if tensor.device.type != "cpu":
        raise NotImplementedError(
            f"{name}: the tensor is on {tensor.device}, and this build of horovod takes tensors of "
            f"the CPU only; pass tensor.cpu()"
        )
    if tensor.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(f"{name}: tensors of {tensor.dtype} are not supported; use one of {names}")


def describe(tensor: torch.Tensor) -> Tensor:
    """The library's view of a contiguous tensor."""
    return operations.make_tensor(tensor.data_ptr(), tensor.shape, DTYPES[tensor.dtype])


class Names:
    """Names for calls that have none, equal on ranks that make the same calls in the same order.

    They come round again, so that a training loop without names still uses the library's cache.
    2520 is a multiple of every period up to 10: a loop of so many calls meets the same names with
    the same shapes.
    """

    def __init__(self, period: int = 2520) -> None:
        self._period = period
        self._next: dict[str, int] = defaultdict(int)
        self._pending: set[str] = set()
        self._world = 0

    def take(self, op: str) -> str:
        if self._world != basics.worlds_joined:  # all ranks start again after init
            self._world = basics.worlds_joined
            self._next.clear()
            self._pending.clear()
        number = self._next[op]
        self._next[op] = number + 1
        name = f"{op}.noname.{number % self._period}"
        if name in self._pending:
            name = f"{op}.noname.{number}"
        self._pending.add(name)
        return name

    def give_back(self, name: str) -> None:
        self._pending.discard(name)


class Place(enum.Enum):
    """Where results go."""

    in_place = enum.auto()  # over the input
    beside = enum.auto()  # into new tensors of the same shape
    allocated = enum.auto()  # into memory of the library, because only it learns the shape


class Kind(enum.Enum):
    """What the tensors of a call have to do with each other."""

    one = enum.auto()  # there is one
    group = enum.auto()  # they complete as a unit
    each = enum.auto()  # nothing: they are submitted together to save time


@dataclass(frozen=True)
class Batch:
    """The tensors of one call and their names; made by `one`, `group` and `each`."""

    name: str
    parts: list[str]
    tensors: list[torch.Tensor]
    kind: Kind


def one(label: str, name: str | None, tensor: torch.Tensor) -> Batch:
    """`label` is the operation's name in messages; a call without `name` gets one."""
    full_name = _full_name(label, name)
    return Batch(full_name, [full_name], [tensor], Kind.one)


def group(label: str, name: str | None, tensors: Sequence[torch.Tensor]) -> Batch:
    """Tensors that complete as a unit."""
    if not tensors:
        raise ValueError(f"{label}: the list of tensors is empty")
    full_name = _full_name(label, name)
    parts = [f"{full_name}_{index + 1}of{len(tensors)}" for index in range(len(tensors))]
    return Batch(full_name, parts, list(tensors), Kind.group)


def each(label: str, named: Sequence[tuple[str, torch.Tensor]]) -> Batch:
    """Tensors that complete one by one."""
    parts = [f"{label}.{name}" for name, _ in named]
    return Batch(label, parts, [tensor for _, tensor in named], Kind.each)


@dataclass
class Call:
    """One call that was submitted and not yet synchronized."""

    batch: Batch
    sources: list[torch.Tensor]
    targets: list[torch.Tensor]  # empty: the library allocates the results
    results: list[torch.Tensor]  # what the user gets; in place they may differ from `targets`
    tickets: list[int]

    def wait(self) -> list[Exception | None]:
        return [operations.wait(ticket) for ticket in self.tickets]

    def collect(self, errors: list[Exception | None]) -> list[torch.Tensor]:
        """Gives the tickets back, and raises the first failure or returns the results."""
        try:
            for error in errors:
                if error is not None:
                    raise error
            if not self.targets:
                return [_copy_of_result(ticket) for ticket in self.tickets]
        finally:
            for ticket in self.tickets:
                operations.release(ticket)
        if self.results is not self.targets:
            self._copy_back()
        return self.results

    @torch.no_grad()
    def _copy_back(self) -> None:
        for result, target in zip(self.results, self.targets, strict=True):
            if result.data_ptr() != target.data_ptr():
                result.copy_(target)


def _copy_of_result(ticket: int) -> torch.Tensor:
    source = operations.result(ticket)
    tensor = torch.empty(source.shape[: source.ndim], dtype=_FROM_LIBRARY[source.dtype])
    if tensor.numel() > 0:
        ctypes.memmove(tensor.data_ptr(), source.data, tensor.numel() * tensor.element_size())
    return tensor


@dataclass(frozen=True)
class Settings:
    """What the requests of one call have in common."""

    op: int
    place: Place
    reduce_op: int = 0
    root: int = 0
    prescale: float = 1.0
    postscale: float = 1.0


_names = Names()
_calls: dict[int, Call] = {}
_handles = itertools.count(1)


def start(batch: Batch, settings: Settings) -> int:
    """Submits the tensors and returns one handle for all."""
    return _start(batch, settings, operations.submit)


def run(batch: Batch, settings: Settings) -> list[torch.Tensor]:
    """As `start` and `synchronize`, with less waking up of threads."""
    return _finish(_start(batch, settings, operations.submit_and_wait))


def _full_name(label: str, name: str | None) -> str:
    return _names.take(label) if name is None else f"{label}.{name}"


def _start(
    batch: Batch, settings: Settings, submit: Callable[[Sequence[Request]], list[int]]
) -> int:
    handle = next(_handles)
    try:
        for part, tensor in zip(batch.parts, batch.tensors, strict=True):
            check_supported(tensor, part)
        sources = [tensor.detach().contiguous() for tensor in batch.tensors]
        targets = _targets(sources, settings.place)
        requests = _requests(batch, sources, targets, settings)
        results = batch.tensors if settings.place is Place.in_place else targets
        # Before submitting: after a Ctrl-C in the middle the memory may be in use, and stays here.
        call = _calls[handle] = Call(batch, sources, targets, results, [])
        call.tickets = submit(requests)
    except Exception:
        _calls.pop(handle, None)
        _names.give_back(batch.name)
        raise
    return handle


def _targets(sources: list[torch.Tensor], place: Place) -> list[torch.Tensor]:
    if place is Place.beside:
        return [torch.empty_like(source) for source in sources]
    return sources if place is Place.in_place else []


def _requests(
    batch: Batch, sources: list[torch.Tensor], targets: list[torch.Tensor], settings: Settings
) -> list[Request]:
    requests = []
    for index, (part, source) in enumerate(zip(batch.parts, sources, strict=True)):
        target = describe(targets[index]) if targets else None
        request = operations.make_request(part, settings.op, describe(source), target)
        request.reduce_op = settings.reduce_op
        request.root = settings.root
        request.prescale = settings.prescale
        request.postscale = settings.postscale
        request.group = 1 if batch.kind is Kind.group else 0
        requests.append(request)
    return requests


def poll(handle: int) -> bool:
    """True when the operation has ended, so that `synchronize` will not block."""
    call = _calls.get(handle)
    if call is None:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    return all(operations.poll(ticket) for ticket in call.tickets)


def synchronize(handle: int) -> torch.Tensor | list[torch.Tensor] | None:
    """Waits for the operation and returns its result, a list for a group.

    Raises HorovodInternalError where the ranks disagree or one of them is gone. None for a handle
    that is not known, or was synchronized already.
    """
    call = _calls.get(handle)
    if call is None:
        return None
    outputs = _finish(handle)
    return outputs[0] if call.batch.kind is Kind.one else outputs


def _finish(handle: int) -> list[torch.Tensor]:
    call = _calls[handle]
    errors = call.wait()  # after a Ctrl-C the call stays, because its memory is in use
    _calls.pop(handle, None)
    _names.give_back(call.batch.name)
    return call.collect(errors)
