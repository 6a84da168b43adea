# SPDX-License-Identifier: Apache-2.0
"""The requests of one call as hvd_submit reads them: structs, shapes and names in one piece of
memory.

The structs of ctypes would be an object each, and their pointers a dictionary each: they take
several times as long to make, and thousands of them outstanding keep Python's garbage collector
busy.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from horovod.common.library import REQUEST_BYTES, TENSOR_BYTES

_REQUEST = struct.Struct("@NPPPddQiiiiPNii")
_TENSOR = struct.Struct("@NPPPiiiiPP")
_HOST = (0, 0, 0)  # device type, index and stream of a tensor of the host
_WORD = 8  # bytes of an extent, and what structs are aligned to

if _REQUEST.size != REQUEST_BYTES or _TENSOR.size != TENSOR_BYTES:
    raise AssertionError(f"{__name__} does not match the structs of horovod.common.library")

Memory = tuple[int, Sequence[int], int] | tuple[int, Sequence[int], int, int, int, int]
"""A row-major tensor: address, shape, data type; of a device also its type and index, and the
stream on which the tensor becomes ready."""


class PackedRequests:
    """Never changed once it is made. `address` is that of the first of `count` requests."""

    __slots__ = ("_memory", "address", "count")

    def __init__(
        self,
        names: Sequence[str],
        inputs: Sequence[Memory],
        outputs: Sequence[Memory],
        *,
        op: int,
        reduce_op: int,
        root: int,
        prescale: float,
        postscale: float,
        groups: Sequence[int],
        process_set: int,
        splits: Sequence[int] = (),
    ) -> None:
        """`outputs` is empty where the library allocates them, and `inputs` where they replace the
        inputs. `splits` are those of the only request."""
        count = len(names)
        places = inputs if outputs is inputs else [*inputs, *outputs]
        words = [extent for place in places for extent in place[1]]
        tensors_at = count * REQUEST_BYTES
        words_at = tensors_at + len(places) * TENSOR_BYTES
        splits_at = words_at + len(words) * _WORD
        words += splits
        text_at = words_at + len(words) * _WORD
        texts = [_encode(name) for name in names]
        memory = (ctypes.c_char * (text_at + sum(map(len, texts))))()
        begin = ctypes.addressof(memory)
        struct.pack_into(f"@{len(words)}q", memory, words_at, *words)
        at, shape_address = tensors_at, begin + words_at
        for address, shape, dtype, *device in places:
            dimensions = len(shape)
            values = (TENSOR_BYTES, address, shape_address, 0, dimensions, dtype)
            _TENSOR.pack_into(memory, at, *values, *(device or _HOST), 0)
            at += TENSOR_BYTES
            shape_address += dimensions * _WORD
        source = begin + tensors_at
        to_target = 0 if outputs is inputs else count * TENSOR_BYTES
        for index, text in enumerate(texts):
            values = (
                *(REQUEST_BYTES, begin + text_at, source, source + to_target if outputs else 0),
                *(prescale, postscale, groups[index], op, reduce_op, root, process_set),
                *(begin + splits_at if splits else 0, len(splits), 0, 0),
            )
            _REQUEST.pack_into(memory, index * REQUEST_BYTES, *values)
            memory[text_at : text_at + len(text)] = text
            source += TENSOR_BYTES
            text_at += len(text)
        self._memory = memory
        self.address = begin
        self.count = count


def _encode(name: str) -> bytes:
    """With the NUL that ends it."""
    if "\0" in name:
        raise ValueError(f"the name {name!r} has a NUL character")
    return name.encode() + b"\0"
