# SPDX-License-Identifier: Apache-2.0
"""Submits requests and waits for them; turns a status of the library into an exception.

Front ends fill the structs of `library` with pointers into their own tensors and keep those tensors
alive until `wait` has returned or raised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_int64, c_uint64
from typing import TypeVar

from horovod.common.exceptions import HorovodInternalError
from horovod.common.library import REQUEST_BYTES, TENSOR_BYTES, Request, Tensor, library

T = TypeVar("T")

OK = library.enum("HVD_OK")
IN_PROGRESS = library.enum("HVD_IN_PROGRESS")
_INVALID_ARGUMENT = library.enum("HVD_INVALID_ARGUMENT")
_UNSUPPORTED = library.enum("HVD_UNSUPPORTED")
_PEER_LOST = (library.enum("HVD_UNAVAILABLE"), library.enum("HVD_ABORTED"))

ALLREDUCE = library.enum("HVD_ALLREDUCE")
ALLGATHER = library.enum("HVD_ALLGATHER")
BROADCAST = library.enum("HVD_BROADCAST")
BARRIER = library.enum("HVD_BARRIER")

UINT8 = library.enum("HVD_UINT8")
INT64 = library.enum("HVD_INT64")

# A blocked call returns to Python this often, so that Ctrl-C and other signal handlers run.
_SIGNAL_CHECK_MS = 500

NOT_INITIALIZED = "Horovod has not been initialized; use hvd.init()."


def error_of(status: int, message: str) -> Exception:
    """The exception that the original raises for a failure of this kind."""
    if status == _INVALID_ARGUMENT:
        return ValueError(message)
    if status == _UNSUPPORTED:
        return NotImplementedError(message)
    error = HorovodInternalError(message)
    error.peer_lost = status in _PEER_LOST
    return error


def check(status: int) -> None:
    """Raises unless the last call on this thread succeeded."""
    if status != OK:
        raise error_of(status, library.last_error())


def context() -> int:
    """The world's handle; raises ValueError before init."""
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
    return Request(
        struct_size=REQUEST_BYTES,
        name=name.encode(),
        input=None if source is None else ctypes.pointer(source),
        output=None if target is None else ctypes.pointer(target),
        prescale=1.0,
        postscale=1.0,
        op=op,
    )


def submit(requests: Sequence[Request]) -> list[int]:
    """Queues all of them, or raises and queues none. Returns a ticket for each."""
    count = len(requests)
    array = (Request * count)(*requests)
    tickets = (c_uint64 * count)()
    check(library.hvd_submit(context(), array, count, tickets))
    return list(tickets)


def submit_and_wait(requests: Sequence[Request]) -> list[int]:
    """As `submit`, for a caller with nothing else to do: all have usually ended when it returns.
    How they ended is left to `wait`, which is to be called in any case."""
    count = len(requests)
    array = (Request * count)(*requests)
    tickets = (c_uint64 * count)()
    status = library.hvd_run(context(), array, count, tickets, _SIGNAL_CHECK_MS)
    if tickets[0] == 0:
        check(status)
    return list(tickets)


def poll(ticket: int) -> bool:
    """Whether it has ended, well or not."""
    status: int = library.hvd_poll(context(), ticket)
    return status != IN_PROGRESS


def wait(ticket: int) -> Exception | None:
    """Blocks until it ends; returns how it failed, or None. Does not release it.

    What a signal handler raises passes through; the operation then still uses its memory.
    """
    world = context()
    status = library.hvd_wait(world, ticket, _SIGNAL_CHECK_MS)
    while status == IN_PROGRESS:
        status = library.hvd_wait(world, ticket, _SIGNAL_CHECK_MS)
    return None if status == OK else error_of(status, library.last_error())


def result(ticket: int) -> Tensor:
    """The output of an operation that ended well; valid until `release`."""
    tensor = Tensor(struct_size=TENSOR_BYTES)
    check(library.hvd_result(context(), ticket, byref(tensor)))
    return tensor


def release(ticket: int) -> None:
    """Gives the ticket back; needed once for every ticket, failed ones too."""
    current = library.hvd_current()
    if current is not None:
        library.hvd_release(current, ticket)


_running: list[tuple[object, ...]] = []  # memory that operations use


def run(request: Request, *memory: object, read: Callable[[Tensor], T] | None = None) -> T | None:
    """Submits one request and waits for it. `memory` is what its pointers point into; `read` gets
    the result while it is valid, and what it returns is returned."""
    _running.append(memory)  # stays after a Ctrl-C, because the memory is then in use
    try:
        (ticket,) = submit_and_wait([request])
    except Exception:
        _running.remove(memory)
        raise
    error = wait(ticket)
    _running.remove(memory)
    try:
        if error is not None:
            raise error
        return None if read is None else read(result(ticket))
    finally:
        release(ticket)


def barrier(name: str = "barrier.noname") -> None:
    """Returns when all ranks have called it."""
    run(make_request(name, BARRIER, None, None))
