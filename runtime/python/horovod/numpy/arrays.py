# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library as arrays of NumPy, without a copy where they lie in memory of the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from horovod.common.library import library
from horovod.common.packed_requests import Memory

# By name, because NumPy itself has no bfloat16: the package ml_dtypes brings it.
DTYPES = {
    name: library.enum(f"HVD_{name.upper()}")
    for name in (
        *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
        *("float16", "bfloat16", "float32", "float64"),
    )
}
_DLPACK_HOST = (1, 3)  # memory of the host, and pinned memory of the host


def as_array(value: Any, name: str) -> np.ndarray[Any, Any]:
    """The value's own memory, or a copy where it has none, as numbers and lists have not. Raises
    where the library cannot take it."""
    array = np.asarray(_view(value, name))
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: masked arrays are not supported; use value.filled(...)")
    if array.dtype.name not in DTYPES:
        raise ValueError(
            f"{name}: arrays of {array.dtype.name} are not supported; use one of "
            f"{', '.join(DTYPES)}"
        )
    if not array.dtype.isnative:
        raise ValueError(f"{name}: the array's byte order is not that of this machine")
    return array


def _view(value: Any, name: str) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value
    if hasattr(value, "__cuda_array_interface__"):
        raise _on_device(name)
    if hasattr(value, "__dlpack_device__"):
        if value.__dlpack_device__()[0] not in _DLPACK_HOST:
            raise _on_device(name)
        return np.from_dlpack(value)
    try:
        return memoryview(value)
    except TypeError:
        return value


def _on_device(name: str) -> Exception:
    return NotImplementedError(
        f"{name}: the array is on a GPU, and this build of horovod takes arrays of the host only; "
        f"copy it there first"
    )


def as_target(value: Any, name: str) -> np.ndarray[Any, Any]:
    """As `as_array`, for a result that replaces the value."""
    array = as_array(value, name)
    is_own = hasattr(value, "__array_interface__") or hasattr(value, "__dlpack_device__")
    is_own = is_own or isinstance(_view(value, name), memoryview)
    if isinstance(value, np.generic) or not is_own or not array.flags.writeable:
        raise ValueError(
            f"{name}: the result cannot replace a {type(value).__name__} that is read-only or has "
            f"no memory of its own; use the operation without the underscore"
        )
    return array


def describe(array: np.ndarray[Any, Any]) -> Memory:
    """The library's view of a row-major array."""
    return array.__array_interface__["data"][0], array.shape, DTYPES[array.dtype.name]
