# SPDX-License-Identifier: Apache-2.0
"""What the caller of a function and the ranks that run it say to each other.

A *call* goes to every rank. *States* of the rank, if the call asks for them, and then an *outcome*
come from each. Launcher and agents pass them as bytes and read nothing in them. A rank unpickles
the call and the caller unpickles the value of an outcome; exceptions and states are JSON.

    call      "hvdc", major and minor version of Python (u8 each), seconds between two states
              (u8, 0: none), pickle of (fn, args, kwargs)
    state     2 (u8), JSON of a RankState
    outcome   0 (u8), pickle of the value   or   1 (u8), JSON of a RankFailure

On a stream, the length (u64, little endian) stands before each.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import cloudpickle

from horovod.runner.errors import RankFailure
from horovod.runner.rank_state import RankState

_MAGIC = b"hvdc"
_HEADER = struct.Struct("<4sBBB")
_LENGTH = struct.Struct("<Q")
_PIECE = 1 << 20  # bytes that one read asks for
_VALUE = b"\0"
_FAILURE = b"\1"
_STATE = b"\2"


class PythonVersionError(RuntimeError):
    """The Python of a rank differs from that of the caller: pickles of functions do not cross."""


class MessageError(RuntimeError):
    """The other end left early, or sent what is no message of this version."""


def encode_call(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    state_seconds: int = 0,
) -> bytes:
    """Functions of `__main__`, of a cell for example, travel with their code. Ranks tell their
    state every `state_seconds` (up to 255; 0: never)."""
    header = _HEADER.pack(_MAGIC, *sys.version_info[:2], state_seconds)
    return header + cloudpickle.dumps((fn, tuple(args), dict(kwargs or {})))


def decode_call(
    message: bytes | bytearray,
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """For ranks alone, because unpickling runs what the caller wrote."""
    if len(message) < _HEADER.size:
        raise MessageError(f"a call of {len(message)} bytes is too short")
    magic, *caller, _ = _HEADER.unpack_from(message)
    if magic != _MAGIC:
        raise MessageError(f"a call begins with {_MAGIC!r}, not with {magic!r}")
    own = sys.version_info[:2]
    if tuple(caller) != own:
        raise PythonVersionError(
            f"the function comes from Python {caller[0]}.{caller[1]}, and this rank runs Python "
            f"{own[0]}.{own[1]} ({sys.executable}): name an interpreter of the same version with "
            "executable="
        )
    fn, args, kwargs = pickle.loads(memoryview(message)[_HEADER.size :])
    return fn, args, kwargs


def state_seconds(call: bytes | bytearray) -> int:
    """Of a call that `decode_call` takes."""
    return int(_HEADER.unpack_from(call)[-1])


def encode_value(value: Any) -> bytes:
    return _VALUE + cloudpickle.dumps(value)


def encode_failure(failure: RankFailure) -> bytes:
    return _FAILURE + json.dumps(dataclasses.asdict(failure)).encode()


def encode_state(state: RankState) -> bytes:
    return _STATE + json.dumps(dataclasses.asdict(state)).encode()


def decode_outcome(message: bytes | bytearray) -> Any:
    """The value that a rank returned, a RankFailure, or a RankState. For the calling process
    alone."""
    kind, body = message[:1], memoryview(message)[1:]
    if kind == _VALUE:
        return pickle.loads(body)
    if kind == _FAILURE:
        return RankFailure(**json.loads(bytes(body)))
    if kind == _STATE:
        return RankState(**json.loads(bytes(body)))
    raise MessageError(f"a rank's message begins with 0, 1 or 2, not with {kind!r}")


def send(stream: BinaryIO, message: bytes) -> None:
    """`stream` is blocking; a socket's `makefile("rwb")`, or a file opened on a descriptor."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: BinaryIO) -> bytearray:
    """Waits for a whole message: its end is that of the connection, which ends with the job."""
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    return _read(stream, length)


def _read(stream: BinaryIO, size: int) -> bytearray:
    content = bytearray(size)  # the kernel backs it with memory as it is filled
    view = memoryview(content)
    done = 0
    while done < size:
        count = stream.readinto(view[done : done + _PIECE])  # type: ignore[attr-defined]
        if not count:
            raise MessageError(f"the connection ended after {done} of {size} bytes")
        done += count
    return content
