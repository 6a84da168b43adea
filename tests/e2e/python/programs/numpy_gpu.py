# SPDX-License-Identifier: Apache-2.0
"""horovod.numpy with arrays of a GPU: the stand-in for the CUDA driver, whose memory is the host's,
and as much of CuPy as horovod.numpy uses, made here on that driver. No driver: "no driver"."""

from __future__ import annotations

import ctypes
import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from cases import case, raises, run

import horovod.numpy as hvd

try:
    _library = ctypes.CDLL("libcuda.so.1")
    _library.hvd_fake_cuda  # noqa: B018
except (OSError, AttributeError):
    print("no driver")
    sys.exit(0)


def driver(symbol: str, *arguments: Any) -> None:
    function, status = ctypes.c_void_p(), ctypes.c_int()
    name = symbol.encode()
    _library.cuGetProcAddress_v2(
        name, ctypes.byref(function), 12000, ctypes.c_uint64(0), ctypes.byref(status)
    )
    result = ctypes.CFUNCTYPE(ctypes.c_int)(function.value)(*arguments)
    assert result == 0, (symbol, result)


hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
SUM = SIZE * (SIZE + 1) // 2  # of rank + 1
context = ctypes.c_void_p()
driver("cuInit", ctypes.c_uint(0))
driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(RANK))
driver("cuCtxPushCurrent", context)
stream = ctypes.c_void_p()
driver("cuStreamCreateWithPriority", ctypes.byref(stream), ctypes.c_uint(1), ctypes.c_int(0))


class Device:
    id = RANK

    def __init__(self, number: int = RANK) -> None:
        assert number == RANK

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class Memory:
    def __init__(self, address: int) -> None:
        self.ptr = address

    def copy_from_device_async(self, other: Memory, size: int, _: object) -> None:
        driver("cuStreamSynchronize", stream)
        ctypes.memmove(self.ptr, other.ptr, size)


class ndarray:  # noqa: N801: CuPy's name
    device = Device()

    def __init__(self, shape: tuple[int, ...], dtype: Any, values: Any = None) -> None:
        self.shape, self.dtype, self.ndim = tuple(shape), np.dtype(dtype), len(shape)
        size = math.prod(self.shape) * self.dtype.itemsize
        address = ctypes.c_uint64()
        driver("cuMemAlloc", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        self.data = Memory(address.value)
        memory = (ctypes.c_char * size).from_address(address.value)
        self.on_host = np.frombuffer(memory, self.dtype).reshape(self.shape)
        if values is not None:
            self.on_host[...] = values
        self.__cuda_array_interface__ = {"version": 3}

    def read(self) -> np.ndarray:
        driver("cuStreamSynchronize", stream)
        return self.on_host


class Event:
    done = True

    def __init__(self, **_: object) -> None: ...

    def record(self, _: object) -> None: ...


cupy = SimpleNamespace(
    ndarray=ndarray,
    ascontiguousarray=lambda array: array,
    empty=lambda shape, dtype: ndarray(shape, dtype),
    cuda=SimpleNamespace(
        Device=Device,
        Event=Event,
        get_current_stream=lambda _: SimpleNamespace(ptr=stream.value),
        UnownedMemory=lambda address, *_: Memory(address),
        MemoryPointer=lambda memory, _: memory,
    ),
)


def mine(*shape: int, dtype: str = "float32") -> ndarray:
    return ndarray(shape, dtype, RANK + 1)


@case
def without_cupy_the_message_says_what_to_do() -> None:
    assert "import cupy" in raises(NotImplementedError, lambda: hvd.allreduce(mine(2)))
    sys.modules["cupy"] = cupy  # type: ignore[assignment]


@case
def reductions_stay_on_the_gpu() -> None:
    for dtype in ("uint8", "int32", "float16", "float32", "float64"):
        result = hvd.allreduce(mine(3, 4, dtype=dtype), op=hvd.Sum)
        assert isinstance(result, ndarray) and result.shape == (3, 4), result
        assert (result.read() == SUM).all(), result.read()
    array = mine(5)
    assert hvd.allreduce_(array, op=hvd.Max) is array
    assert (array.read() == SIZE).all(), array.read()
    handle = hvd.allreduce_async(mine(70000), name="async", op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert (hvd.synchronize(handle).read() == SUM).all()
    for result in hvd.grouped_allreduce([mine(1), mine(9)], op=hvd.Sum):
        assert (result.read() == SUM).all()


@case
def rows_come_from_all_ranks() -> None:
    wanted = [rank + 1 for rank in range(SIZE) for _ in range(rank + 1)]
    assert hvd.allgather(mine(RANK + 1)).read().tolist() == wanted
    assert hvd.broadcast(mine(2), SIZE - 1).read().tolist() == [SIZE] * 2
    assert (hvd.reducescatter(mine(SIZE + 1, 2), op=hvd.Sum).read() == SUM).all()
    received, splits = hvd.alltoall(mine(SIZE), splits=[1] * SIZE)
    assert received.read().tolist() == list(range(1, SIZE + 1)), received.read()
    assert splits.tolist() == [1] * SIZE
    assert hvd.allgather(mine(0, 3)).shape == (0, 3)


@case
def arrays_of_host_and_gpu_go_in_one_call() -> None:
    here, there = hvd.grouped_allreduce([np.full(3, RANK + 1.0), mine(3)], op=hvd.Sum)
    assert (here == SUM).all() and (there.read() == SUM).all()
    assert "complex" in raises(ValueError, lambda: hvd.allreduce(mine(1, dtype="complex64")))


if __name__ == "__main__":
    run()
    hvd.shutdown()
    print("done", flush=True)
