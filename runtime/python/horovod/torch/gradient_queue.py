# SPDX-License-Identifier: Apache-2.0
"""Gradients on their way: submitted in batches while backward still runs, awaited before the step.

One call of the library takes many gradients, so what is ready at about the same time is submitted
together: when it reaches a message's worth of bytes, and when backward ends. Nothing of a finished
backward ever waits here, so ranks may do other operations between backward and step.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable
from ctypes import c_uint64
from dataclasses import dataclass

import torch

from horovod.common import operations
from horovod.common.library import Request, library
from horovod.torch.compression import Compressor
from horovod.torch.submission import DTYPES, check_supported

# A message of its own in shared memory: below it a call costs more than what it could overlap.
_BATCH_BYTES = 1 << 20

_TOO_MANY_BACKWARDS = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)

_CHANGED_ON_THE_WAY = (
    "Gradients were changed between loss.backward() and optimizer.step(), while they were combined "
    "with those of other ranks: the ranks may now differ. Call optimizer.synchronize() before you "
    "clip or unscale gradients, and then optimizer.step() within optimizer.skip_synchronize()."
)


@dataclass(frozen=True)
class Reduction:
    """How every gradient of an optimizer is reduced."""

    reduce_op: int
    prescale: float
    postscale: float
    compression: type[Compressor]
    sparse_as_dense: bool


def _dense_strides(parameter: torch.Tensor) -> tuple[int, ...] | None:
    """How gradients of a parameter lie in memory: as the parameter where it has no gaps, such as a
    channels_last weight; None for row-major. The same on all ranks, as the model is."""
    strides = torch.empty_like(parameter).stride()
    return None if parameter.is_contiguous() or strides != parameter.stride() else strides


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
        self._name = name
        self._reduction = reduction
        self._travelling: torch.Tensor | None = None  # whose memory the library uses
        self._context: torch.dtype | None = None
        self._version = 0  # of the gradient that was loaded: how often it had been written to
        self._dtype: torch.dtype | None = None
        self._strides = _dense_strides(parameter)
        self._tensor = operations.make_tensor(0, parameter.shape, 0, self._strides)
        self.request: Request = operations.make_request(
            f"allreduce.{name}", operations.ALLREDUCE, self._tensor, self._tensor
        )
        self.request.reduce_op = reduction.reduce_op
        self.request.prescale = reduction.prescale
        self.request.postscale = reduction.postscale

    def load(self) -> None:
        """Points the request at the gradient, or at what compression makes of it."""
        gradient = self.parameter.grad
        if gradient is None:
            # Another rank may have computed it, and waits for ours: zeros change no sum.
            gradient = self.parameter.grad = torch.zeros_like(self.parameter)
        elif gradient.layout != torch.strided and self._reduction.sparse_as_dense:
            gradient = self.parameter.grad = gradient.to_dense()
        if gradient.requires_grad:  # of a backward that can be differentiated again
            gradient = gradient.detach()
        self._version = gradient._version
        travelling, self._context = self._reduction.compression.compress(gradient)
        if travelling.dtype is not self._dtype or not travelling.is_cpu:
            check_supported(travelling, f"gradient of {self._name}")
            self._dtype = travelling.dtype
            self._tensor.dtype = DTYPES[travelling.dtype]
        if not self._has_layout(travelling):
            travelling = self._in_layout(travelling)
        self._travelling = travelling
        self._tensor.data = travelling.data_ptr()

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
        if result.data_ptr() != gradient.data_ptr():
            gradient.copy_(result)
        return is_as_loaded

    def clear(self) -> None:
        self.ticket = 0
        self._travelling = None
        self.is_ready = self.is_taken = False


class GradientQueue:
    """Submits the gradients of one optimizer. Thread: that of backward and step."""

    def __init__(self) -> None:
        self._queued: list[GradientSlot] = []
        self._queued_bytes = 0
        self._in_flight: list[GradientSlot] = []
        self._flushes_at_end = False  # of the backward that is running
        self._has_warned = False

    def has_outstanding(self) -> bool:
        return bool(self._queued or self._in_flight)

    def on_gradient(self, slot: GradientSlot) -> None:
        """A backward has accumulated this gradient."""
        if slot.is_taken or slot.is_ready:
            raise AssertionError(_TOO_MANY_BACKWARDS)
        slot.passes_left -= 1
        if slot.passes_left <= 0:
            self.submit(slot)
            if self._queued and not self._flushes_at_end:
                self._flushes_at_end = True
                torch.autograd.Variable._execution_engine.queue_callback(self._end_of_backward)

    def submit(self, slot: GradientSlot) -> None:
        """Queues a gradient; one of a group waits for the others of its group."""
        if slot.group is None:
            self._take(slot)
        else:
            slot.is_ready = True
            if all(one.is_ready for one in slot.group):
                for one in slot.group:
                    self._take(one)
        if self._queued_bytes >= _BATCH_BYTES:
            self.flush()

    def _take(self, slot: GradientSlot) -> None:
        slot.load()
        slot.is_taken = True
        self._queued.append(slot)
        self._queued_bytes += slot.bytes

    def _end_of_backward(self) -> None:
        self._flushes_at_end = False
        self.flush()

    def flush(self) -> None:
        """Submits what is queued, in one call."""
        slots, self._queued, self._queued_bytes = self._queued, [], 0
        if not slots:
            return
        count = len(slots)
        requests = (Request * count)(*[slot.request for slot in slots])
        tickets = (c_uint64 * count)()
        operations.check(library.hvd_submit(operations.context(), requests, count, tickets))
        for slot, ticket in zip(slots, tickets, strict=True):
            slot.ticket = ticket
        self._in_flight += slots

    def finish(self, store: bool = True) -> None:
        """Waits for everything; raises the first failure, after all have ended."""
        self.flush()
        self._flushes_at_end = False
        if not self._in_flight:
            return
        errors = []
        is_changed = False
        for slot in self._in_flight:
            error = operations.wait(slot.ticket)
            if error is not None:
                errors.append(error)
            elif store and not slot.store():
                is_changed = True
        in_flight, self._in_flight = self._in_flight, []
        for slot in in_flight:
            operations.release(slot.ticket)
            slot.clear()
        if is_changed and not self._has_warned:
            self._has_warned = True
            warnings.warn(_CHANGED_ON_THE_WAY, stacklevel=2)
        if errors:
            raise errors[0]


def hook_of(queue: GradientQueue, slot: GradientSlot) -> Callable[[torch.Tensor], None]:
    """What torch calls when the gradient of the slot's parameter is complete. It ends with the
    queue, so that a model may get another optimizer."""
    reference = weakref.ref(queue)

    def hook(_: torch.Tensor) -> None:
        alive = reference()
        if alive is not None:
            alive.on_gradient(slot)

    return hook


def make_groups(slots: Iterable[list[GradientSlot]]) -> None:
    """Binds the slots of each list to one another; a list of one stays alone."""
    for number, group in enumerate(slots, start=1):
        if len(group) < 2:
            continue
        for slot in group:
            slot.group = group
            slot.request.group = number
