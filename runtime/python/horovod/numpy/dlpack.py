# SPDX-License-Identifier: Apache-2.0
"""The structs of DLPack, which arrays of GPUs are exchanged by: dlpack.h of its version 1."""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_void_p
from dataclasses import dataclass
from typing import Any

CUDA = 2
_LEGACY_STREAM = 1  # as the protocol numbers CUDA's streams
_READ_ONLY = 1
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_BOOL = (6, 8)


class _Device(ctypes.Structure):
    _fields_ = (("kind", c_int32), ("number", c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", _Device),
        ("ndim", c_int32),
        ("dtype", _Type),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DELETER = CFUNCTYPE(None, c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", _DELETER))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", c_void_p),
        ("deleter", _DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_DESTRUCTOR = CFUNCTYPE(None, c_void_p)
_api = ctypes.pythonapi
_is_valid = CFUNCTYPE(ctypes.c_int, ctypes.py_object, c_char_p)(("PyCapsule_IsValid", _api))
_pointer = CFUNCTYPE(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", _api))
_new = CFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _api))
# Of a capsule that is being destroyed, which must not become a Python object again.
_dying_is_valid = CFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_dying_pointer = CFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))


@dataclass(frozen=True)
class Memory:
    """Of an array; `owner` keeps it. `strides` is None for row-major, in elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str  # NumPy's name
    device: int
    is_read_only: bool
    owner: Any


def read(value: Any) -> Memory:
    """The memory of an array on a GPU, which is ready on the default stream. It belongs to the
    capsule, which gives it back when it goes unless another library has taken it over."""
    try:
        capsule = value.__dlpack__(stream=_LEGACY_STREAM, max_version=(1, 0))
    except TypeError:  # an exporter from before version 1
        capsule = value.__dlpack__(stream=_LEGACY_STREAM)
    if _is_valid(capsule, _VERSIONED_NAME):
        versioned = _Versioned.from_address(_pointer(capsule, _VERSIONED_NAME))
        tensor, is_read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    else:
        tensor, is_read_only = _Managed.from_address(_pointer(capsule, _NAME)).tensor, False
    return Memory(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[: tensor.ndim]),
        tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None,
        _name_of(tensor.dtype),
        tensor.device.number,
        is_read_only,
        capsule,
    )


def _name_of(dtype: _Type) -> str:
    if (dtype.code, dtype.bits) == _BOOL:
        return "bool"
    kind = _KINDS.get(dtype.code, f"DLPack's type {dtype.code} with ")
    return f"{kind}{dtype.bits}" + ("" if dtype.lanes == 1 else f" x {dtype.lanes}")


# By the address of a _Managed: it, its shape, and the memory's owner.
_exported: dict[int, Any] = {}


# At the end of the process an array of another library may go after this module, whose names are
# None by then. So these two functions look up none of them, and are never freed.
@_DELETER
def _delete(managed: int, forget: Callable[[int, Any], Any] = _exported.pop) -> None:
    forget(managed, None)


@_DESTRUCTOR
def _destroy(
    capsule: int,
    is_finalizing: Callable[[], bool] = sys.is_finalizing,
    is_valid: Callable[..., int] = _dying_is_valid,
    pointer: Callable[..., int] = _dying_pointer,
    forget: Callable[[int, Any], Any] = _exported.pop,
    name: bytes = _NAME,
) -> None:
    # A capsule that was taken over has another name.
    if not is_finalizing() and is_valid(capsule, name):
        forget(pointer(capsule, name), None)


def _keep_forever(value: Any) -> None:
    _api.Py_IncRef(ctypes.py_object(value))


_keep_forever(_delete)
_keep_forever(_destroy)


@atexit.register
def _forget_users() -> None:
    """The arrays that still use exported memory have nobody to give it back to."""
    for managed, shape, _ in list(_exported.values()):
        managed.deleter = _DELETER()
        _keep_forever(managed)
        _keep_forever(shape)


def make(memory: Memory) -> Any:
    """A capsule of row-major memory, which keeps `memory.owner` until its taker gives it back."""
    code, bits = _code_of(memory.dtype)
    shape = (c_int64 * max(len(memory.shape), 1))(*memory.shape)
    managed = _Managed(
        _Tensor(
            memory.address,
            _Device(CUDA, memory.device),
            len(memory.shape),
            _Type(code, bits, 1),
            shape,
            None,
            0,
        ),
        None,
        _delete,
    )
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, memory.owner)
    return _new(address, _NAME, ctypes.cast(_destroy, c_void_p))


def _code_of(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return _BOOL
    kind = dtype.rstrip("0123456789")
    return {name: code for code, name in _KINDS.items()}[kind], int(dtype[len(kind) :])
