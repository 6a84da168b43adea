# SPDX-License-Identifier: Apache-2.0
"""Memory of GPUs from the CUDA driver, for programs without CuPy. The driver is opened by the first
result. Thread: any."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

_LIBRARY = "libcuda.so.1"
_LEGACY_STREAM = c_uint64(1)  # CU_GET_PROC_ADDRESS_LEGACY_STREAM
_DEVICE_ORDINAL = c_int(9)  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_OUT_OF_MEMORY = 2


@functools.cache
def _function(name: str, version: int) -> Callable[..., int]:
    """With the signature of that version of CUDA, x 1000."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise NotImplementedError(
            f"the array is on a GPU, and no CUDA driver can be loaded: {error}: install NVIDIA's "
            f"driver, or make the container see it (--gpus all)"
        ) from None
    address = c_void_p()
    arguments = (name.encode(), byref(address), c_int(version), _LEGACY_STREAM)
    if hasattr(library, "cuGetProcAddress_v2"):  # of CUDA 12
        library.cuGetProcAddress_v2(*arguments, None)
    else:
        library.cuGetProcAddress(*arguments)
    if not address.value:
        raise NotImplementedError(
            f"the CUDA driver has no {name}: install a driver for CUDA {version // 1000} or later"
        )
    return ctypes.CFUNCTYPE(c_int)(address.value)


def _call(name: str, version: int, *arguments: Any) -> None:
    result = _function(name, version)(*arguments)
    if result == _OUT_OF_MEMORY:
        raise RuntimeError(f"CUDA out of memory: {name} of horovod.numpy found none")
    if result != 0:
        raise RuntimeError(f"{name} of the CUDA driver failed with error {result}")


@functools.cache
def _primary_context(device: int) -> c_void_p:
    """Kept until the process ends."""
    context = c_void_p()
    _call("cuDevicePrimaryCtxRetain", 7000, byref(context), c_int(device))
    return context


@contextlib.contextmanager
def _on(device: int) -> Iterator[None]:
    _call("cuCtxPushCurrent", 4000, _primary_context(device))
    try:
        yield
    finally:
        _call("cuCtxPopCurrent", 4000, byref(c_void_p()))


def allocate(device: int, size: int) -> int:
    address = c_uint64()
    with _on(device):
        _call("cuMemAlloc", 3020, byref(address), c_size_t(size))
    return address.value


def free(device: int, address: int) -> None:
    """Waits for all work of the GPU that may use the memory."""
    with _on(device):
        _call("cuMemFree", 3020, c_uint64(address))


def copy(device: int, target: int, source: int, size: int) -> None:
    """Returns when the copy is done."""
    with _on(device):
        stream = c_void_p()
        pair = (c_uint64(target), c_uint64(source))
        _call("cuMemcpyAsync", 4000, *pair, c_size_t(size), stream)
        _call("cuStreamSynchronize", 2000, stream)


def device_of(address: int) -> int:
    """The GPU whose memory it is."""
    device = c_int()
    results = (c_void_p * 1)(ctypes.addressof(device))
    attributes = (c_int * 1)(_DEVICE_ORDINAL)
    _call("cuPointerGetAttributes", 7000, ctypes.c_uint(1), attributes, results, c_uint64(address))
    return device.value
