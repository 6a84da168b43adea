# SPDX-License-Identifier: Apache-2.0
"""Python objects between ranks, as pickles: the ranks of a job trust each other."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, sizeof
from typing import Any

import cloudpickle

from horovod.common import operations
from horovod.common.basics import basics
from horovod.common.library import Tensor


def _tensor(buffer: ctypes.Array[Any], dtype: int) -> Tensor:
    return operations.make_tensor(ctypes.addressof(buffer), (len(buffer),), dtype)


def _bytes(payload: bytes | int) -> ctypes.Array[Any]:
    """A buffer with this content, or of this size."""
    content = bytearray(payload)
    return (ctypes.c_char * len(content)).from_buffer(content)


def _broadcast(
    buffer: ctypes.Array[Any], dtype: int, root: int, name: str, process_set: int
) -> None:
    tensor = _tensor(buffer, dtype)
    request = operations.make_request(name, operations.BROADCAST, tensor, tensor)
    request.root = root
    request.process_set = process_set
    operations.run(request, buffer)


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: int = 0
) -> Any:
    """The root's object, on every rank of the set. `name` is the same on all ranks."""
    prefix = f"broadcast_object.{name or 'noname'}"
    is_root = basics.rank() == root_rank
    payload = cloudpickle.dumps(obj) if is_root else b""
    length = (c_int64 * 1)(len(payload))
    _broadcast(length, operations.INT64, root_rank, f"{prefix}.size", process_set)
    buffer = _bytes(payload if is_root else length[0])
    _broadcast(buffer, operations.UINT8, root_rank, f"{prefix}.bytes", process_set)
    return obj if is_root else cloudpickle.loads(buffer.raw)


def _allgather(buffer: ctypes.Array[Any], dtype: int, name: str, process_set: int) -> bytes:
    def read(gathered: Tensor) -> bytes:
        return ctypes.string_at(gathered.data, gathered.shape[0] * sizeof(buffer._type_))

    request = operations.make_request(name, operations.ALLGATHER, _tensor(buffer, dtype), None)
    request.process_set = process_set
    return operations.run(request, buffer, read=read) or b""


def allgather_object(obj: Any, name: str | None = None, process_set: int = 0) -> list[Any]:
    """The objects of all ranks of the set, in rank order, on each of them."""
    prefix = f"allgather_object.{name or 'noname'}"
    own = _bytes(cloudpickle.dumps(obj))
    own_length = (c_int64 * 1)(len(own))
    lengths = _allgather(own_length, operations.INT64, f"{prefix}.size", process_set)
    everything = _allgather(own, operations.UINT8, f"{prefix}.bytes", process_set)
    objects = []
    start = 0
    for length in memoryview(lengths).cast("q"):
        objects.append(cloudpickle.loads(everything[start : start + length]))
        start += length
    return objects
