# SPDX-License-Identifier: Apache-2.0
"""libhorovod.so as ctypes sees it: the structs and functions of hvd/hvd.h, and nothing else.

Enumerations are read from the library when this module is imported, so that no copy can differ.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

FILE_NAME = "libhorovod.so"
PATH_VARIABLE = "HOROVOD_LIBRARY"


class ProcessSet(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("ranks", POINTER(c_int32)),
        ("count", c_size_t),
    )


class InitOptions(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("timeout_ms", c_int64),
        ("mpi_comm", c_void_p),
        ("process_sets", POINTER(ProcessSet)),
        ("process_set_count", c_size_t),
        ("dynamic_process_sets", c_int32),
        ("reserved", c_int32),
    )


class Topology(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("rank", c_int32),
        ("size", c_int32),
        ("local_rank", c_int32),
        ("local_size", c_int32),
        ("cross_rank", c_int32),
        ("cross_size", c_int32),
        ("is_homogeneous", c_int32),
    )


class Tensor(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("device_type", c_int32),
        ("device_index", c_int32),
        ("stream", c_void_p),
        ("event", c_void_p),
    )


class Request(ctypes.Structure):
    # `in` is a keyword of Python: `input` and `output` here.
    _fields_ = (
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("input", POINTER(Tensor)),
        ("output", POINTER(Tensor)),
        ("prescale", c_double),
        ("postscale", c_double),
        ("group", c_uint64),
        ("op", c_int32),
        ("reduce_op", c_int32),
        ("root", c_int32),
        ("process_set", c_int32),
        ("splits", POINTER(c_int64)),
        ("split_count", c_size_t),
        ("average_over", c_int32),
        ("wire_dtype", c_int32),
    )


class Counters(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("submitted", c_uint64),
        ("completed", c_uint64),
        ("agreed_by_name", c_uint64),
        ("agreed_by_bit", c_uint64),
        ("names_bytes", c_uint64),
        ("collectives", c_uint64),
        ("collective_bytes", c_uint64),
        ("engine_wakeups", c_uint64),
        ("caller_progress", c_uint64),
    )


class Metrics(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("process_set", c_int32),
        ("op", c_int32),
        ("operations", c_uint64),
        ("bytes", c_uint64),
        ("collectives", c_uint64),
        ("largest", c_uint64),
        ("waits", c_uint64),
        ("wait_ns", c_uint64),
        ("timed", c_uint64),
        ("copy_ns", c_uint64),
        ("wire_ns", c_uint64),
    )


class Arrivals(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("process_set", c_int32),
        ("op", c_int32),
        ("rank", c_int32),
        ("reserved", c_int32),
        ("times", c_uint64),
        ("wait_ns", c_uint64),
    )


TENSOR_BYTES = ctypes.sizeof(Tensor)
REQUEST_BYTES = ctypes.sizeof(Request)

# (name, result, arguments) of the functions that Python calls.
_FUNCTIONS = (
    ("hvd_version", c_char_p, ()),
    ("hvd_enum_value", c_int32, (c_char_p,)),
    ("hvd_feature_value", c_int32, (c_int32,)),
    ("hvd_init", c_int32, (POINTER(InitOptions), POINTER(c_void_p))),
    ("hvd_current", c_void_p, ()),
    ("hvd_shutdown", c_int32, (c_void_p,)),
    ("hvd_topology_of", c_int32, (c_void_p, POINTER(Topology))),
    ("hvd_submit", c_int32, (c_void_p, c_void_p, c_size_t, c_void_p)),
    ("hvd_run", c_int32, (c_void_p, c_void_p, c_size_t, c_void_p, c_int64)),
    ("hvd_run_stream", c_int32, (c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_int64)),
    ("hvd_poll", c_int32, (c_void_p, c_uint64)),
    ("hvd_wait", c_int32, (c_void_p, c_uint64, c_int64)),
    (
        "hvd_wait_any",
        c_int32,
        (c_void_p, POINTER(c_uint64), c_size_t, c_int64, POINTER(c_size_t)),
    ),
    ("hvd_wait_stream", c_int32, (c_void_p, c_uint64, c_void_p, c_int64)),
    ("hvd_wait_all_stream", c_int32, (c_void_p, c_void_p, c_size_t, c_void_p, c_int64)),
    ("hvd_health", c_int32, (c_void_p,)),
    ("hvd_result", c_int32, (c_void_p, c_uint64, POINTER(Tensor))),
    (
        "hvd_received_splits",
        c_int32,
        (c_void_p, c_uint64, POINTER(POINTER(c_int64)), POINTER(c_size_t)),
    ),
    ("hvd_release", c_int32, (c_void_p, c_uint64)),
    ("hvd_release_all", c_int32, (c_void_p, POINTER(c_uint64), c_size_t)),
    (
        "hvd_process_set_add",
        c_int32,
        (c_void_p, POINTER(ProcessSet), c_int64, POINTER(c_int32)),
    ),
    ("hvd_process_set_remove", c_int32, (c_void_p, c_int32, c_int64)),
    (
        "hvd_process_set_ids",
        c_int32,
        (c_void_p, POINTER(c_int32), c_size_t, POINTER(c_size_t)),
    ),
    (
        "hvd_process_set_ranks",
        c_int32,
        (c_void_p, c_int32, POINTER(c_int32), c_size_t, POINTER(c_size_t)),
    ),
    ("hvd_timeline_start", c_int32, (c_void_p, c_char_p, c_int32)),
    ("hvd_timeline_stop", c_int32, (c_void_p,)),
    ("hvd_counters_of", c_int32, (c_void_p, POINTER(Counters))),
    ("hvd_metrics_of", c_int32, (c_void_p, POINTER(Metrics), c_size_t, POINTER(c_size_t))),
    ("hvd_arrivals_of", c_int32, (c_void_p, POINTER(Arrivals), c_size_t, POINTER(c_size_t))),
    ("hvd_report", c_int32, (c_int32, c_int32, c_char_p)),
    ("hvd_last_error", c_char_p, ()),
)


class Library:
    """The loaded library. Its functions are attributes, named as in hvd.h."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = ctypes.CDLL(str(path))
        for name, result, arguments in _FUNCTIONS:
            function = getattr(self._handle, name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)
        self.version: str = self.hvd_version().decode()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def enum(self, name: str) -> int:
        """The value of an enumerator of hvd.h."""
        value: int = self.hvd_enum_value(name.encode())
        if value < 0:
            from horovod.common.exceptions import HorovodVersionMismatchError

            raise HorovodVersionMismatchError(
                f"a {FILE_NAME} that knows", name, f"{self.path} ({self.version})"
            )
        return value

    def last_error(self) -> str:
        message: bytes = self.hvd_last_error()
        return message.decode(errors="replace")


def installed_path() -> Path:
    """Where the wheel and `cmake --install` put it: lib/pythonX.Y/site-packages/horovod/common
    holds this file, and lib/ the library."""
    return Path(__file__).resolve().parents[4] / FILE_NAME


def find() -> Path:
    """Where libhorovod.so is. HOROVOD_LIBRARY names the file itself, for development builds."""
    wanted = os.environ.get(PATH_VARIABLE)
    if wanted:
        if not Path(wanted).is_file():
            raise ImportError(f"{PATH_VARIABLE} is '{wanted}', which is not a file: unset it")
        return Path(wanted).resolve()
    path = installed_path()
    if not path.is_file():
        raise ImportError(
            f"{FILE_NAME} is not at {path}: reinstall the horovod package, or set "
            f"{PATH_VARIABLE} to the file of your build"
        )
    return path


def companion(name: str) -> Path:
    """Another library of the same build, such as libhorovod_tf.so: beside libhorovod.so."""
    path = library.path.with_name(name)
    if not path.is_file():
        raise ImportError(
            f"{name} is not at {path}: reinstall the horovod package, or build it as well"
        )
    return path


library = Library(find())
