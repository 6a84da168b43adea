# SPDX-License-Identifier: Apache-2.0
"""Submits requests and waits for them; turns a status of the library into an exception.

Front ends fill the structs of `library` with pointers into their own tensors and keep those tensors
alive until `wait` has returned or raised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, Array, byref, c_int64, c_size_t, c_uint64
from typing import TypeVar

from horovod.common.exceptions import HorovodInternalError
from horovod.common.held_back import Held, held_back
from horovod.common.held_back import has_ended as held_back_has_ended
from horovod.common.library import REQUEST_BYTES, TENSOR_BYTES, Request, Tensor, library
from horovod.common.names import names_in_use, unnamed

T = TypeVar("T")

OK = library.enum("HVD_OK")
IN_PROGRESS = library.enum("HVD_IN_PROGRESS")
INVALID_ARGUMENT = library.enum("HVD_INVALID_ARGUMENT")
UNSUPPORTED = library.enum("HVD_UNSUPPORTED")
_PEER_LOST = (library.enum("HVD_UNAVAILABLE"), library.enum("HVD_ABORTED"))

ALLREDUCE = library.enum("HVD_ALLREDUCE")
ALLGATHER = library.enum("HVD_ALLGATHER")
BROADCAST = library.enum("HVD_BROADCAST")
BARRIER = library.enum("HVD_BARRIER")
ALLTOALL = library.enum("HVD_ALLTOALL")
REDUCESCATTER = library.enum("HVD_REDUCESCATTER")
JOIN = library.enum("HVD_JOIN")
CUDA = library.enum("HVD_CUDA")

UINT8 = library.enum("HVD_UINT8")
INT32 = library.enum("HVD_INT32")
INT64 = library.enum("HVD_INT64")

# A blocked call returns to Python this often, so that Ctrl-C and other signal handlers run.
SIGNAL_CHECK_MS = 500

NOT_INITIALIZED = "Horovod has not been initialized; use hvd.init()."

_HAS_SHUT_DOWN = "has shut down"
_UNEVEN_BATCHES = (
    "; if it has run out of batches before this rank, give all ranks the same number of batches "
    "(drop_last=True in a DataLoader), or call hvd.join() after the last one"
)


def error_of(status: int, message: str) -> Exception:
    """The exception that the original raises for a failure of this kind."""
    if status == INVALID_ARGUMENT:
        return ValueError(message)
    if status == UNSUPPORTED:
        return NotImplementedError(message)
    is_peer_lost = status in _PEER_LOST
    if is_peer_lost and _HAS_SHUT_DOWN in message and "hvd.join" not in message:
        message += _UNEVEN_BATCHES
    error = HorovodInternalError(message)
    error.peer_lost = is_peer_lost
    return error


def check(status: int) -> None:
    """Raises unless the last call on this thread succeeded."""
    if status != OK:
        raise error_of(status, library.last_error())


class _Process:
    """The handle of the library, which outlives its worlds, as tickets do."""

    handle = 0  # 0 before the first init


def remember(handle: int) -> None:
    """For init, which gets the handle."""
    _Process.handle = handle


def context() -> int:
    """The world's handle; raises ValueError outside of a world."""
    current: int | None = library.hvd_current()
    if current is None:
        raise ValueError(NOT_INITIALIZED)
    return current


def make_tensor(
    address: int, shape: Sequence[int], dtype: int, strides: Sequence[int] | None = None
) -> Tensor:
    """Describes memory of the host. `strides`, in elements, is None for row-major."""
    dimensions = c_int64 * len(shape)
    return Tensor(
        struct_size=TENSOR_BYTES,
        data=address,
        shape=dimensions(*shape),
        strides=None if strides is None else dimensions(*strides),
        ndim=len(shape),
        dtype=dtype,
    )


def make_request(name: str, op: int, source: Tensor | None, target: Tensor | None) -> Request:
    """A request with neutral scales, for the world; set the other fields as needed."""
    if "\0" in name:
        raise ValueError(f"the name {name!r} has a NUL character")
    return Request(
        struct_size=REQUEST_BYTES,
        name=name.encode(),
        input=None if source is None else ctypes.pointer(source),
        output=None if target is None else ctypes.pointer(target),
        prescale=1.0,
        postscale=1.0,
        op=op,
    )


Submitted = tuple[list[int], bool]
"""The tickets, and whether all are known to have ended well; else `wait` tells."""


def submit(requests: int, count: int) -> Submitted:
    """Queues the `count` requests at that address, or raises and queues none. Returns a ticket for
    each."""
    tickets = (c_uint64 * count)()
    check(library.hvd_submit(context(), requests, count, tickets))
    return list(tickets), False


def submit_and_wait(requests: int, count: int) -> Submitted:
    """As `submit`, for a caller with nothing else to do: all have usually ended when it returns."""
    if held_back.queues:
        return submit(requests, count)
    tickets = (c_uint64 * count)()
    status = library.hvd_run(context(), requests, count, tickets, SIGNAL_CHECK_MS)
    return _as_submitted(status, tickets)


def submit_and_wait_on_stream(requests: int, count: int, *, stream: int) -> Submitted:
    """As `submit_and_wait`, for a device's tensors, for which `stream` waits then."""
    if held_back.queues:
        return submit(requests, count)
    tickets = (c_uint64 * count)()
    status = library.hvd_run_stream(context(), requests, count, tickets, stream, SIGNAL_CHECK_MS)
    return _as_submitted(status, tickets)


def _as_submitted(status: int, tickets: Array[c_uint64]) -> Submitted:
    """Of a call that waits."""
    if tickets[0] == 0:
        check(status)
    names_in_use.clear()
    return list(tickets), status == OK


def poll(ticket: int) -> bool:
    """Whether it has ended, well or not."""
    status: int = library.hvd_poll(_Process.handle, ticket)
    return status != IN_PROGRESS


def wait(ticket: int) -> Exception | None:
    """Blocks until it ends; returns how it failed, or None. Does not release it.

    What a signal handler raises passes through; the operation then still uses its memory.
    """
    world = _Process.handle
    names_in_use.clear()
    while True:
        if held_back.queues and not poll(ticket):
            held_back.submit_ready(world)
            held_back.wait_beside(world, [ticket], SIGNAL_CHECK_MS)
            continue
        status = library.hvd_wait(world, ticket, SIGNAL_CHECK_MS)
        if status == OK:
            return None
        if status != IN_PROGRESS:
            return error_of(status, library.last_error())


def wait_on_stream(ticket: int, stream: int) -> Exception | None:
    """As `wait`, for a device's tensor: what is put into `stream` afterwards finds the result, and
    the host does not wait for the device."""
    names_in_use.clear()
    while True:
        if held_back.queues and not poll(ticket):
            held_back.submit_ready(_Process.handle)
            held_back.wait_beside(_Process.handle, [ticket], SIGNAL_CHECK_MS)
            continue
        status = library.hvd_wait_stream(_Process.handle, ticket, stream, SIGNAL_CHECK_MS)
        if status == OK:
            return None
        if status != IN_PROGRESS:
            return error_of(status, library.last_error())


def wait_all(tickets: Array[c_uint64], stream: int = 0) -> bool:
    """Blocks until all have ended; of a device's tensors, until `stream` waits for them. Whether
    all went well: where not, `wait` tells of each."""
    names_in_use.clear()
    while not held_back.queues:
        status = library.hvd_wait_all_stream(
            _Process.handle, tickets, len(tickets), stream, SIGNAL_CHECK_MS
        )
        if status != IN_PROGRESS:
            return bool(status == OK)
    return False


def broken_world() -> list[Exception]:
    """How the world ended; empty while it works. For results that only a device has waited for, and
    that are nothing where it has ended meanwhile."""
    status = library.hvd_health(_Process.handle)
    return [] if status == OK else [error_of(status, library.last_error())]


def has_ended(operation: Held) -> bool:
    """Whether all its tickets have."""
    return held_back_has_ended(operation, _Process.handle)


def submit_held_back() -> None:
    """Lets operations follow whose names are free by now."""
    if held_back.queues:
        held_back.submit_ready(_Process.handle)


def wait_for_held_back() -> None:
    """Blocks until an operation that others wait for has ended, and submits those."""
    held_back.wait_beside(_Process.handle, [], SIGNAL_CHECK_MS)
    held_back.submit_ready(_Process.handle)


def result(ticket: int) -> Tensor:
    """The output of an operation that ended well; valid until `release`."""
    tensor = Tensor(struct_size=TENSOR_BYTES)
    check(library.hvd_result(_Process.handle, ticket, byref(tensor)))
    return tensor


def received_splits(ticket: int) -> list[int]:
    """Of an alltoall that ended well: the rows that came from each rank of its set."""
    splits, count = POINTER(c_int64)(), c_size_t()
    check(library.hvd_received_splits(_Process.handle, ticket, byref(splits), byref(count)))
    return splits[: count.value]


def release(ticket: int) -> None:
    """Gives the ticket back, also after shutdown; needed once for every ticket, failed ones too."""
    library.hvd_release(_Process.handle, ticket)


def release_all(tickets: Array[c_uint64]) -> None:
    """As `release` for each of them."""
    library.hvd_release_all(_Process.handle, tickets, len(tickets))


_running: list[tuple[object, ...]] = []  # memory that operations use


def run(request: Request, *memory: object, read: Callable[[Tensor], T] | None = None) -> T | None:
    """Submits one request and waits for it. `memory` is what its pointers point into; `read` gets
    the result while it is valid, and what it returns is returned."""
    _running.append(memory)  # stays after a Ctrl-C, because the memory is then in use
    try:
        (ticket,), is_well = submit_and_wait(ctypes.addressof(request), 1)
    except Exception:
        _running.remove(memory)
        raise
    error = None if is_well else wait(ticket)
    _running.remove(memory)
    try:
        if error is not None:
            raise error
        return None if read is None else read(result(ticket))
    finally:
        release(ticket)


def barrier(name: str = "barrier.noname", process_set: int = 0) -> None:
    """Returns when all ranks of the set have called it."""
    request = make_request(name, BARRIER, None, None)
    request.process_set = process_set
    run(request)


def _read_int32(tensor: Tensor) -> int:
    return ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_int32))[0]


def join(gpu: int = -1) -> int:
    """Waits until all ranks have joined, meanwhile taking part in their allreduces with nothing.
    Returns the rank that joined last. `gpu` is that of this rank, if it has one."""
    while held_back.queues:  # their turn is before the join
        wait_for_held_back()
    place = None
    if gpu >= 0:
        place = Tensor(struct_size=TENSOR_BYTES, device_type=CUDA, device_index=gpu)
    last = run(make_request("join.noname", JOIN, place, None), read=_read_int32)
    unnamed.restart()
    return int(last or 0)
