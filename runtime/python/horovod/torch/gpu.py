# SPDX-License-Identifier: Apache-2.0
"""Streams and memory of GPUs, as PyTorch has them. Nothing here loads CUDA before a tensor does."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import torch

from horovod.common import operations
from horovod.common.library import Tensor, library

HOST = -1  # in the place of a GPU's number
CUDA = library.enum("HVD_CUDA")


def _current_stream(index: int) -> int:
    """The handle of the stream into which PyTorch puts work for this GPU."""
    return int(torch.cuda.current_stream(index).cuda_stream)


# PyTorch's own function gives the handle alone, in a tenth of the time.
current_stream: Callable[[int], int] = getattr(
    torch._C, "_cuda_getCurrentRawStream", _current_stream
)


def keep_for_current_stream(tensor: torch.Tensor) -> None:
    """PyTorch's allocator gives the tensor's memory to nothing else before this stream is done."""
    tensor.record_stream(torch.cuda.current_stream(tensor.device.index))


def make_current_stream_wait(device: int, handle: int) -> None:
    """Work that is put into the current stream afterwards finds what is in the other one now."""
    other = torch.cuda.ExternalStream(handle, device=device)
    torch.cuda.current_stream(device).wait_stream(other)


class _Bytes:
    """Memory of the library as torch.as_tensor reads it."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),  # PyTorch refuses what is read-only
            "shape": (size,),
            "typestr": "|u1",
            "version": 2,
        }


_lent: deque[tuple[torch.cuda.Event, int]] = deque()  # tickets whose memory a stream still reads


def copy_result(source: Tensor, dtype: torch.dtype, ticket: int) -> torch.Tensor:
    """A copy of what the library holds, made on the current stream, which waits for it already.
    Gives the ticket back once the copy is done."""
    while _lent and _lent[0][0].query():
        operations.release(_lent.popleft()[1])
    shape = source.shape[: source.ndim]
    size = math.prod(shape) * dtype.itemsize
    tensor = torch.empty(shape, dtype=dtype, device=f"cuda:{source.device_index}")
    if size == 0:
        operations.release(ticket)
        return tensor
    # The library's memory, which is only read.
    memory = torch.as_tensor(_Bytes(source.data, size), device=tensor.device)
    tensor.view(-1).view(torch.uint8).copy_(memory)
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(source.device_index))
    _lent.append((done, ticket))
    return tensor
