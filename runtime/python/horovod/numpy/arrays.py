# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library as arrays of NumPy, without a copy where they lie in memory of the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from horovod.common.library import library
from horovod.common.packed_requests import Memory
from horovod.numpy import gpu_arrays

# By name, because NumPy itself has no bfloat16: the package ml_dtypes brings it.
DTYPES = {
    name: library.enum(f"HVD_{name.upper()}")
    for name in (
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float16", "bfloat16", "float32", "float64"),
    )
}
_DLPACK_HOST = (1, 3)  # memory of the host, and pinned memory of the host


def as_array(value: Any, name: str) -> Any:
    """The value's own memory, or a copy where it has none, as numbers and lists have not; an array
    of CuPy or a DeviceArray where it is on a GPU. Raises where the library cannot take it."""
    if not isinstance(value, np.ndarray | np.generic) and gpu_arrays.is_on_gpu(value):
        array = gpu_arrays.as_gpu_array(value, name)
        if array.dtype.name not in DTYPES:
            raise _unsupported(name, array.dtype)
        return array
    array = np.asarray(_view(value, name))
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: masked arrays are not supported; use value.filled(...)")
    if array.dtype.name not in DTYPES:
        raise _unsupported(name, array.dtype)
    if not array.dtype.isnative:
        raise ValueError(f"{name}: the array's byte order is not that of this machine")
    return array


def _view(value: Any, name: str) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value
    if hasattr(value, "__dlpack_device__"):
        if value.__dlpack_device__()[0] not in _DLPACK_HOST:
            raise _on_device(name)
        return np.from_dlpack(value)
    try:
        return memoryview(value)
    except TypeError:
        return value


def _unsupported(name: str, dtype: Any) -> Exception:
    return ValueError(
        f"{name}: arrays of {dtype.name} are not supported; use one of {', '.join(DTYPES)}"
    )


def _on_device(name: str) -> Exception:
    return NotImplementedError(
        f"{name}: the array is on a device that is no GPU of NVIDIA; copy it to the host first"
    )


def as_target(value: Any, name: str) -> Any:
    """As `as_array`, for a result that replaces the value."""
    array = as_array(value, name)
    if gpu_arrays.is_array(array):
        can_replace = not gpu_arrays.is_read_only(array)
    else:
        is_own = hasattr(value, "__array_interface__") or hasattr(value, "__dlpack_device__")
        is_own = is_own or isinstance(_view(value, name), memoryview)
        can_replace = is_own and not isinstance(value, np.generic) and array.flags.writeable
    if not can_replace:
        raise ValueError(
            f"{name}: the result cannot replace a {type(value).__name__} that is read-only or has "
            f"no memory of its own; use the operation without the underscore"
        )
    return array


def describe(array: Any) -> Memory:
    """The library's view of a row-major array; a GPU's is ready on the current stream."""
    if gpu_arrays.is_array(array):
        address, device, stream = gpu_arrays.place(array)
        return address, array.shape, DTYPES[array.dtype.name], gpu_arrays.CUDA, device, stream
    return array.__array_interface__["data"][0], array.shape, DTYPES[array.dtype.name]
