# SPDX-License-Identifier: Apache-2.0
"""Arrays of GPUs in programs without CuPy: the memory of any library's array, and results."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np

from horovod.numpy import cuda_driver, dlpack


class DeviceArray:
    """Row-major memory of a GPU. A result is one: no arithmetic, but every library of arrays takes
    it, by `__dlpack__` or `__cuda_array_interface__`. Its values are there when the caller gets it,
    so no stream has to wait for them."""

    def __init__(self, memory: dlpack.Memory, dtype: np.dtype[Any], stream: int = 0) -> None:
        self._memory = memory
        self.dtype = dtype
        self.stream = stream  # on which the memory is ready; 0: the default one

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> DeviceArray:
        size = math.prod(shape) * dtype.itemsize
        owner = _Owned(device, size)
        memory = dlpack.Memory(owner.address, shape, None, dtype.name, device, False, owner)
        return cls(memory, dtype)

    @property
    def address(self) -> int:
        return self._memory.address

    @property
    def device(self) -> int:
        return self._memory.device

    @property
    def is_read_only(self) -> bool:
        return self._memory.is_read_only

    @property
    def shape(self) -> tuple[int, ...]:
        return self._memory.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.is_read_only),
            "version": 3,
            "strides": None,
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("an array of horovod.numpy cannot be copied while it is exported")
        return dlpack.make(self._memory)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device={self.device})"


class _Owned:
    """Memory of a GPU, given back to the driver with this object."""

    def __init__(self, device: int, size: int) -> None:
        self.address = cuda_driver.allocate(device, size) if size else 0
        if size:
            weakref.finalize(self, cuda_driver.free, device, self.address).atexit = False


def view(value: Any, name: str) -> DeviceArray:
    """The value's own memory. DLPack comes first: its exporter makes the default stream wait."""
    if isinstance(value, DeviceArray):
        return value
    if hasattr(value, "__dlpack_device__"):
        memory, stream = dlpack.read(value), 0
    else:
        memory, stream = _by_interface(value)
    try:
        dtype = np.dtype(memory.dtype)
    except TypeError:
        hint = "; import ml_dtypes before" if memory.dtype == "bfloat16" else ""
        raise ValueError(f"{name}: arrays of {memory.dtype} are not supported{hint}") from None
    if not _is_row_major(memory):
        raise ValueError(
            f"{name}: the array on the GPU is not row-major; make a contiguous copy of it before, "
            f"or `import cupy`, with which horovod.numpy makes one"
        )
    return DeviceArray(memory, dtype, stream)


def _by_interface(value: Any) -> tuple[dlpack.Memory, int]:
    """The memory, and the stream on which it is ready."""
    about = value.__cuda_array_interface__
    dtype = np.dtype(about["typestr"])
    address, is_read_only = about["data"]
    strides = about.get("strides")
    if strides is not None:
        strides = tuple(stride // dtype.itemsize for stride in strides)
    device = cuda_driver.device_of(address) if address else 0
    memory = dlpack.Memory(
        address, tuple(about["shape"]), strides, dtype.name, device, is_read_only, value
    )
    stream = about.get("stream") or 0
    return memory, 0 if stream == 1 else stream


def _is_row_major(memory: dlpack.Memory) -> bool:
    if memory.strides is None or 0 in memory.shape:
        return True
    expected = 1
    for size, stride in zip(reversed(memory.shape), reversed(memory.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
