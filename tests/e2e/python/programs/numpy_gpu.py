# SPDX-License-Identifier: Apache-2.0
"""horovod.numpy with arrays of a GPU: the stand-in for the CUDA driver, whose memory is the host's,
thin tensors that have it, and as much of CuPy as horovod.numpy uses. No driver: "no driver"."""

from __future__ import annotations

import ctypes
import gc
import math
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from cases import case, raises, run

import horovod.numpy as hvd
from horovod.numpy import cuda_driver, dlpack

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


class ByInterface:
    """As the arrays of Numba: only with `__cuda_array_interface__`."""

    def __init__(self, *shape: int, dtype: str = "float32", is_read_only: bool = False) -> None:
        self.array = mine(*shape, dtype=dtype)
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": self.array.dtype.str,
            "data": (self.array.data.ptr, is_read_only),
            "version": 3,
            "strides": None,
            "stream": stream.value,
        }


class ByDlpack:
    """As the arrays of JAX: only with DLPack, and read-only for a consumer of its version 1."""

    def __init__(self, *shape: int, version: int = 0) -> None:
        self.array = mine(*shape)
        self.version = version
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, RANK

    def __dlpack__(self, *, stream: object = None, **newer: object) -> object:
        self.streams.append(stream)
        if newer and not self.version:
            raise TypeError("unexpected argument max_version")
        versions = {"max_version": (1, 0)} if self.version else {}
        self.array.on_host.flags.writeable = not self.version
        capsule = self.array.on_host.__dlpack__(**versions)
        kind = dlpack._Versioned if self.version else dlpack._Managed
        name = b"dltensor_versioned" if self.version else b"dltensor"
        kind.from_address(dlpack._pointer(capsule, name)).tensor.device = dlpack._Device(2, RANK)
        return capsule


class OnHost:
    """The stand-in's memory of a result, as NumPy takes it."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> object:
        capsule = self.result.__dlpack__(stream=1)
        tensor = dlpack._Managed.from_address(dlpack._pointer(capsule, b"dltensor")).tensor
        assert (tensor.device.kind, tensor.device.number) == (2, RANK)
        tensor.device = dlpack._Device(1, 0)
        return capsule


def read(result: Any) -> np.ndarray:
    """By both ways out."""
    about = result.__cuda_array_interface__
    dtype = np.dtype(about["typestr"])
    size = math.prod(about["shape"]) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(about["data"][0])
    values = np.frombuffer(memory, dtype).reshape(about["shape"])
    assert about["stream"] is None and result.__dlpack_device__() == (2, RANK)
    assert (np.from_dlpack(OnHost(result)) == values).all()
    return values.copy()


@case
def without_cupy_any_array_is_taken_and_the_result_is_a_plain_one() -> None:
    for array in (ByInterface(3, 4), ByDlpack(3, 4), ByDlpack(3, 4, version=1)):
        result = hvd.allreduce(array, op=hvd.Sum)
        assert (result.shape, result.ndim, result.nbytes) == ((3, 4), 2, 48), result
        assert (read(result) == SUM).all(), read(result)
        again = hvd.allreduce(result, op=hvd.Max)
        assert (read(again) == SUM).all()
    for dtype in ("bool", "uint8", "int64", "float16", "float64"):
        result = hvd.allreduce(ByInterface(5, dtype=dtype), op=hvd.Max)
        assert result.dtype == dtype and (read(result) == (SIZE if dtype != "bool" else 1)).all()
    array = ByDlpack(2)
    hvd.broadcast(array, 0)
    assert array.streams == [1, 1], array.streams  # once refused for its newer argument


@case
def without_cupy_results_have_their_own_size() -> None:
    wanted = [rank + 1 for rank in range(SIZE) for _ in range(rank + 1)]
    assert read(hvd.allgather(ByInterface(RANK + 1))).tolist() == wanted
    assert (read(hvd.reducescatter(ByInterface(SIZE + 1, 2), op=hvd.Sum)) == SUM).all()
    received, splits = hvd.alltoall(ByDlpack(SIZE), splits=[1] * SIZE)
    assert read(received).tolist() == list(range(1, SIZE + 1))
    assert splits.tolist() == [1] * SIZE
    assert hvd.allgather(ByDlpack(0, 3)).shape == (0, 3)


@case
def without_cupy_a_result_replaces_what_can_be_written() -> None:
    for array in (ByInterface(5), ByDlpack(5)):
        assert hvd.allreduce_(array, op=hvd.Max) is array
        assert (array.array.on_host == SIZE).all()
    for array in (ByInterface(5, is_read_only=True), ByDlpack(5, version=1)):
        assert "is read-only" in raises(ValueError, lambda: hvd.allreduce_(array))  # noqa: B023
    column = ByInterface(4)
    column.__cuda_array_interface__ |= {"shape": (2,), "strides": (8,)}
    assert "not row-major" in raises(ValueError, lambda: hvd.allreduce(column))
    assert "complex64 are not" in raises(
        ValueError, lambda: hvd.allreduce(ByInterface(1, dtype="complex64"))
    )


@case
def without_cupy_results_give_their_memory_back() -> None:
    freed: list[int] = []
    free = cuda_driver.free
    cuda_driver.free = lambda device, address: (freed.append(address), free(device, address))
    result = hvd.allreduce(ByInterface(7))
    address = result.__cuda_array_interface__["data"][0]
    taken = np.from_dlpack(OnHost(result))
    unused = result.__dlpack__()
    del result, unused
    gc.collect()
    assert not freed
    del taken
    gc.collect()
    cuda_driver.free = free
    assert freed == [address] and not dlpack._exported, freed


@case
def without_cupy_a_result_may_be_in_use_until_the_process_ends() -> None:
    result = hvd.allreduce(ByInterface(7))
    sys.in_use = (np.from_dlpack(OnHost(result)), result.__dlpack__())  # type: ignore[attr-defined]


@case
def cupy_makes_the_results_where_it_is_imported() -> None:
    sys.modules["cupy"] = cupy  # type: ignore[assignment]
    assert isinstance(hvd.allreduce(mine(2)), ndarray)


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
