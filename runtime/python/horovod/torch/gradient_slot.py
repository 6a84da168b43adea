# SPDX-License-Identifier: Apache-2.0
"""One parameter's gradient, as it travels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from horovod.common import operations
from horovod.common.basics import Average, Sum, reduce_op
from horovod.common.library import Request, library
from horovod.common.process_sets import ProcessSet, process_set_id
from horovod.torch import gpu
from horovod.torch.compression import Compressor, FP16Compressor, NoneCompressor
from horovod.torch.sparse import sparse_allreduce_async
from horovod.torch.submission import DTYPES, check_supported

# The library rounds gradients for these compressors, and not for subclasses, which may do more.
_WIRE_DTYPES: dict[type[Compressor], int] = {FP16Compressor: library.enum("HVD_FLOAT16")}
_ROUNDED = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Reduction:
    """How every gradient of an optimizer is reduced."""

    op: int
    prescale: float
    postscale: float
    compression: type[Compressor]
    sparse_as_dense: bool
    process_set: ProcessSet

    def wire_dtype(self) -> int:
        """The type to which the library rounds gradients that are wider; 0 where `compression` is
        to do it."""
        return _WIRE_DTYPES.get(self.compression, 0) if self.op in (Average, Sum) else 0


def _dense_strides(parameter: torch.Tensor) -> tuple[int, ...] | None:
    """How gradients of a parameter lie in memory: as the parameter where it has no gaps, such as a
    channels_last weight; None for row-major. The same on all ranks, as the model is."""
    strides = torch.empty_like(parameter).stride()
    return None if parameter.is_contiguous() or strides != parameter.stride() else strides


def _nothing_sparse() -> torch.Tensor:
    raise AssertionError("no sparse gradient is on its way")


class GradientSlot:
    """One parameter's gradient. The request is written once and pointed at memory every step."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, reduction: Reduction) -> None:
        self.parameter = parameter
        self.bytes = parameter.numel() * parameter.element_size()
        self.group: list[GradientSlot] | None = None  # they are submitted as a unit
        self.passes_left = 1  # backward passes until it is submitted
        self.is_ready = False  # for its group
        self.is_taken = False  # queued or in flight
        self.ticket = 0
        self.has_failed = False  # the operation that was awaited last
        self.device = gpu.HOST  # of what travels: the number of a GPU, or HOST
        self._ready_on = 0  # the stream of a GPU
        self.wait_for_sparse: Callable[[], torch.Tensor] = _nothing_sparse
        self._name = name
        self._reduction = reduction
        self._wire_dtype = reduction.wire_dtype()
        self._travelling: torch.Tensor | None = None  # whose memory the library uses
        self._context: torch.dtype | None = None
        self._version = 0  # of the gradient that was loaded: how often it had been written to
        self._dtype: torch.dtype | None = None
        self._empty: torch.Tensor | None = None  # a sparse gradient of nothing
        self._sparse_dim: int | None = None  # of gradients that are sparse, but travel as dense
        self._strides = _dense_strides(parameter)
        self._tensor = operations.make_tensor(0, parameter.shape, 0, self._strides)
        self.request: Request = operations.make_request(
            f"allreduce.{name}", operations.ALLREDUCE, self._tensor, self._tensor
        )
        self.request.reduce_op = reduce_op(reduction.op)
        self.request.prescale = reduction.prescale
        self.request.postscale = reduction.postscale
        self.enter_world()

    def enter_world(self) -> None:
        """The id of the process set may be another one in each world."""
        self.request.process_set = process_set_id(self._reduction.process_set)

    def take(self) -> None:
        """The gradient is ready, on the stream that is current now. To be looked at later, with
        others: between the steps of a backward that costs several times as much."""
        self.is_taken = True
        device = self.parameter.get_device()
        if device != gpu.HOST:
            self._ready_on = gpu.current_stream(device)

    def load(self) -> bool:
        """Points the request at the gradient, or at what compression makes of it. False where the
        gradient is sparse, and is on its way already."""
        gradient = self.parameter.grad
        if gradient is None:
            # Another rank may have computed it, and waits for ours: zeros change no sum.
            gradient = self._zeros()
        elif gradient.layout == torch.strided:
            self._sparse_dim = None
        if gradient.requires_grad:  # of a backward that can be differentiated again
            gradient = gradient.detach()
        self._version = gradient._version
        if gradient.layout != torch.strided:
            self._follow_current_stream(gradient)
            if not self._reduction.sparse_as_dense:
                self._start_sparse(gradient)
                return False
            self._sparse_dim = gradient.sparse_dim()
            gradient = gradient.to_dense()
        travelling, self._context = self._compress(gradient)
        device = travelling.get_device()
        if travelling.dtype is not self._dtype or device != self.device:
            self._describe(travelling, device)
        if not self._has_layout(travelling):
            self._follow_current_stream(travelling)
            travelling = self._in_layout(travelling)
        if device != gpu.HOST:
            self._tensor.stream = self._ready_on
        self._travelling = travelling
        self._tensor.data = travelling.data_ptr()
        return True

    def _compress(self, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.dtype | None]:
        """The tensor that the library gets, and what `decompress` needs to know."""
        if self._rounds(gradient):
            return gradient, None
        if self._reduction.compression is not NoneCompressor:
            self._follow_current_stream(gradient)
        return self._reduction.compression.compress(gradient)

    def _rounds(self, travelling: torch.Tensor) -> bool:
        """Whether the library rounds it on the way."""
        return self._wire_dtype != 0 and travelling.dtype in _ROUNDED

    def _follow_current_stream(self, gradient: torch.Tensor) -> None:
        """What is made of the gradient now is made on the current stream, and ready there. Backward
        may have used another one for it."""
        device = gradient.get_device()
        if device == gpu.HOST:
            return
        stream = gpu.current_stream(device)
        if stream != self._ready_on:
            gpu.make_current_stream_wait(device, self._ready_on)
            is_dense = gradient.layout == torch.strided
            for part in [gradient] if is_dense else [gradient._indices(), gradient._values()]:
                gpu.keep_for_current_stream(part)
            self._ready_on = stream

    def _describe(self, travelling: torch.Tensor, device: int) -> None:
        """Writes what is the same in most steps into the request."""
        check_supported(travelling, f"gradient of {self._name}")
        self._dtype = travelling.dtype
        self.device = device
        is_on_host = device == gpu.HOST
        self._tensor.dtype = DTYPES[travelling.dtype]
        self._tensor.device_type = 0 if is_on_host else gpu.CUDA
        self._tensor.device_index = 0 if is_on_host else device
        self._tensor.stream = None
        self.request.wire_dtype = self._wire_dtype if self._rounds(travelling) else 0

    def keep_for_stream(self, stream: int) -> None:
        """The current stream, which is this one, waits for the result: where backward used another,
        the memory belongs to both."""
        if self._travelling is not None and self._ready_on != stream:
            gpu.keep_for_current_stream(self._travelling)

    def _zeros(self) -> torch.Tensor:
        if self._empty is not None and not self._reduction.sparse_as_dense:
            return self._empty
        self.parameter.grad = torch.zeros_like(self.parameter)
        return self.parameter.grad

    def _start_sparse(self, gradient: torch.Tensor) -> None:
        """Gradients of one kind stay of that kind: without one, an empty one takes part."""
        values = gradient._values()
        self._empty = torch.sparse_coo_tensor(
            gradient._indices()[:, :0], values[:0], gradient.shape, check_invariants=False
        )
        compressed, self._context = self._reduction.compression.compress(values)
        travelling = torch.sparse_coo_tensor(
            gradient._indices(), compressed, gradient.shape, check_invariants=False
        )
        self.wait_for_sparse = sparse_allreduce_async(
            travelling, self._name, self._reduction.op, self._reduction.process_set
        )

    def store_sparse(self) -> Exception | None:
        """Waits for a sparse gradient and puts it where the optimizer reads it; returns how that
        failed, or None."""
        try:
            result = self.wait_for_sparse()
        except (RuntimeError, ValueError) as error:
            return error
        values = self._reduction.compression.decompress(result._values(), self._context)
        self.parameter.grad = torch.sparse_coo_tensor(
            result._indices(), values, result.shape, check_invariants=False
        )
        return None

    def _in_layout(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._strides is None:
            return tensor.contiguous()
        return torch.empty_like(self.parameter, dtype=tensor.dtype).copy_(tensor)

    def _has_layout(self, tensor: torch.Tensor) -> bool:
        if self._strides is None:
            return tensor.is_contiguous()
        return tensor.stride() == self._strides

    def store(self) -> bool:
        """Puts the result where the optimizer reads it. False where the program has written there
        in the meantime."""
        gradient = self.parameter.grad
        if gradient is None or self._travelling is None:
            return True
        is_as_loaded = gradient._version == self._version
        result = self._reduction.compression.decompress(self._travelling, self._context)
        if self._sparse_dim is not None:
            self.parameter.grad = result.to_sparse(self._sparse_dim)
        elif result is not gradient and result.data_ptr() != gradient.data_ptr():
            gradient.copy_(result)
        return is_as_loaded

    def clear(self) -> None:
        self.ticket = 0
        self.wait_for_sparse = _nothing_sparse
        self._travelling = None
        self.is_ready = self.is_taken = False
