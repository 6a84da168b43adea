# SPDX-License-Identifier: Apache-2.0
"""Arrays of GPUs: those of CuPy where the program has imported it, which is never done here, else
DeviceArray."""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import Any

from horovod.common import operations
from horovod.common.library import Tensor, library
from horovod.numpy import cuda_driver, device_array
from horovod.numpy.device_array import DeviceArray

CUDA = library.enum("HVD_CUDA")
_DLPACK_GPU = (2, 13)  # memory of a GPU, and managed memory


def is_on_gpu(value: Any) -> bool:
    """Whether the value says that it is."""
    if hasattr(value, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] in _DLPACK_GPU


def is_array(value: Any) -> bool:
    """Whether it is one that `as_gpu_array` gives."""
    if isinstance(value, DeviceArray):
        return True
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def as_gpu_array(value: Any, name: str) -> Any:
    """The value's own memory as an array of CuPy, or without CuPy as a DeviceArray."""
    if library.hvd_feature_value(library.enum("HVD_FEATURE_CUDA")) == 0:
        raise NotImplementedError(
            f"{name}: the array is on a GPU, and this build of horovod takes arrays of the host "
            f"only; copy it there first"
        )
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return device_array.view(value, name)
    if isinstance(value, cupy.ndarray):
        return value
    if hasattr(value, "__cuda_array_interface__"):
        return cupy.asarray(value)
    return cupy.from_dlpack(value)


def is_read_only(array: Any) -> bool:
    return isinstance(array, DeviceArray) and array.is_read_only


def place(array: Any) -> tuple[int, int, int]:
    """Its address, its GPU, and the stream on which it is ready."""
    if isinstance(array, DeviceArray):
        return array.address, array.device, array.stream
    return array.data.ptr, array.device.id, current_stream(array)


def contiguous(array: Any) -> Any:
    """The array, or a row-major copy of it."""
    if isinstance(array, DeviceArray):
        return array
    return sys.modules["cupy"].ascontiguousarray(array)


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """On the same GPU."""
    if isinstance(like, DeviceArray):
        return DeviceArray.empty(shape, like.dtype, like.device)
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(like.device.id):
        return cupy.empty(shape, dtype=like.dtype)


def current_stream(array: Any) -> int:
    """The handle of the stream into which CuPy puts work for the array's GPU, or on which a
    DeviceArray is ready."""
    if isinstance(array, DeviceArray):
        return array.stream
    return int(sys.modules["cupy"].cuda.get_current_stream(array.device.id).ptr)


def wait_for(ticket: int, source: Any, submitted_on: int) -> Exception | None:
    """The current stream waits and not the host; so does the stream of the submission, from which
    CuPy may give the memory to another array. Without CuPy the host waits: nothing tells which
    streams the other library uses."""
    if isinstance(source, DeviceArray):
        return operations.wait(ticket)
    error = None
    for stream in dict.fromkeys((submitted_on, current_stream(source))):
        error = operations.wait_on_stream(ticket, stream)
    return error


_lent: deque[tuple[Any, int]] = deque()  # events, and tickets whose memory is read until then


def copy_result(source: Tensor, like: Any, ticket: int) -> Any:
    """A copy of what the library holds, made on the current stream, which waits for it already.
    Gives the ticket back once the copy is done, for which the host waits without CuPy."""
    if isinstance(like, DeviceArray):
        return _copy_now(source, like, ticket)
    while _lent and _lent[0][0].done:
        operations.release(_lent.popleft()[1])
    array = empty(like, tuple(source.shape[: source.ndim]))
    size = math.prod(array.shape) * array.dtype.itemsize
    if size == 0:
        operations.release(ticket)
        return array
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(like.device.id):
        stream = cupy.cuda.get_current_stream(like.device.id)
        array.data.copy_from_device_async(
            cupy.cuda.MemoryPointer(
                cupy.cuda.UnownedMemory(source.data, size, None, like.device.id), 0
            ),
            size,
            stream,
        )
        done = cupy.cuda.Event(disable_timing=True)
        done.record(stream)
    _lent.append((done, ticket))
    return array


def _copy_now(source: Tensor, like: DeviceArray, ticket: int) -> DeviceArray:
    array = DeviceArray.empty(tuple(source.shape[: source.ndim]), like.dtype, like.device)
    if array.nbytes:
        cuda_driver.copy(array.device, array.address, source.data, array.nbytes)
    operations.release(ticket)
    return array
