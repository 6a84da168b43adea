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


def _broadcast(buffer: ctypes.Array[Any], dtype: int, root: int, name: str) -> None:
    tensor = _tensor(buffer, dtype)
    request = operations.make_request(name, operations.BROADCAST, tensor, tensor)
    request.root = root
    operations.run(request, buffer)


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """The root's object, on every rank. `name` is the same on all ranks."""
    prefix = f"broadcast_object.{name or 'noname'}"
    payload = cloudpickle.dumps(obj) if basics.rank() == root_rank else b""
    length = (c_int64 * 1)(len(payload))
    _broadcast(length, operations.INT64, root_rank, f"{prefix}.size")
    buffer = (ctypes.c_char * length[0]).from_buffer(bytearray(payload or length[0]))
    _broadcast(buffer, operations.UINT8, root_rank, f"{prefix}.bytes")
    return obj if basics.rank() == root_rank else cloudpickle.loads(buffer.raw)


def _allgather(buffer: ctypes.Array[Any], dtype: int, name: str) -> bytes:
    def read(gathered: Tensor) -> bytes:
        return ctypes.string_at(gathered.data, gathered.shape[0] * sizeof(buffer._type_))

    request = operations.make_request(name, operations.ALLGATHER, _tensor(buffer, dtype), None)
    return operations.run(request, buffer, read=read) or b""


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """The objects of all ranks, in rank order, on every rank."""
    prefix = f"allgather_object.{name or 'noname'}"
    payload = cloudpickle.dumps(obj)
    own_length = (c_int64 * 1)(len(payload))
    lengths_raw = _allgather(own_length, operations.INT64, f"{prefix}.size")
    lengths = memoryview(lengths_raw).cast("q")
    own_bytes = (ctypes.c_char * len(payload)).from_buffer(bytearray(payload))
    everything = _allgather(own_bytes, operations.UINT8, f"{prefix}.bytes")
    objects = []
    start = 0
    for length in lengths:
        objects.append(cloudpickle.loads(everything[start : start + length]))
        start += length
    return objects
