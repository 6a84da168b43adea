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

import torch

from horovod.common import operations
from horovod.common.basics import basics
from horovod.common.library import Request, library
from horovod.torch import gpu
from horovod.torch.gradient_slot import GradientSlot, Reduction

# The least size of a batch on the host: below it a call costs more than it could overlap with
# backward. On a GPU a call is several launches, which are worth as much as some megabytes.
_BATCH_BYTES = 1 << 20
_GPU_BATCH_BYTES = 16 << 20

_TOO_MANY_BACKWARDS = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally."
)

_CHANGED_ON_THE_WAY = (
    "Gradients were changed between loss.backward() and optimizer.step(), while they were combined "
    "with those of other ranks: the ranks may now differ. Call optimizer.synchronize() before you "
    "clip or unscale gradients, and then optimizer.step() within optimizer.skip_synchronize()."
)


class GradientQueue:
    """Submits the gradients of one optimizer. Thread: that of backward and step."""

    def __init__(self, passes: int) -> None:
        self.passes = passes  # backward passes that accumulate before a gradient is submitted
        self.slots: dict[int, GradientSlot] = {}  # by id of the parameter, which the slot keeps
        self._world = basics.worlds_joined
        self._queued: list[GradientSlot] = []
        self._queued_bytes = 0
        self._in_flight: list[GradientSlot] = []
        self._sparse: list[GradientSlot] = []  # in flight, too
        self._flushes_at_end = False  # of the backward that is running
        self._has_warned = False
        self._uses_gpu = False  # for the gradients that were awaited last

    def add(self, name: str, parameter: torch.nn.Parameter, reduction: Reduction) -> None:
        """Takes the gradients of a parameter from here on."""
        slot = self.slots[id(parameter)] = GradientSlot(name, parameter, reduction)
        slot.passes_left = self.passes
        parameter.register_post_accumulate_grad_hook(hook_of(self, slot))

    def has_outstanding(self) -> bool:
        self._check_world()
        return bool(self._queued or self._in_flight or self._sparse)

    def _check_world(self) -> None:
        """In another world than the last time, nothing of that one is on its way any more."""
        if self._world != basics.worlds_joined:
            self._world = basics.worlds_joined
            for slot in self._in_flight:
                operations.release(slot.ticket)
            self._queued, self._in_flight, self._sparse = [], [], []
            self._queued_bytes = 0
            self._flushes_at_end = False
            for slot in self.slots.values():
                slot.clear()
                slot.enter_world()
            self.reset_passes()

    def reset_passes(self) -> None:
        for slot in self.slots.values():
            slot.passes_left = self.passes

    def on_gradient(self, slot: GradientSlot) -> None:
        """A backward has accumulated this gradient."""
        if self._world != basics.worlds_joined:
            self._check_world()
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
        if self._queued_bytes >= (_BATCH_BYTES if slot.device == gpu.HOST else _GPU_BATCH_BYTES):
            self.flush()

    def _take(self, slot: GradientSlot) -> None:
        slot.take()
        self._queued.append(slot)
        self._queued_bytes += slot.bytes

    def _load(self, slots: list[GradientSlot]) -> list[GradientSlot]:
        """Looks at the gradients. Those that are sparse are on their way then; returns the
        others."""
        dense: list[GradientSlot] = []
        for slot in slots:
            try:
                is_dense = slot.load()
            except Exception:
                self._queued = [one for one in slots if one not in self._sparse]
                self._give_up(slot.group or [slot])
                raise
            (dense if is_dense else self._sparse).append(slot)
        return dense

    def _give_up(self, slots: list[GradientSlot]) -> None:
        """After a failure: they were not submitted, and may be submitted again."""
        self._queued = [one for one in self._queued if one not in slots]
        self._queued_bytes = sum(one.bytes for one in self._queued)
        self._flushes_at_end = False
        for slot in slots:
            slot.clear()
            slot.passes_left = self.passes

    def _end_of_backward(self) -> None:
        self._flushes_at_end = False
        self.flush()

    def flush(self) -> None:
        """Submits what is queued, in one call."""
        queued, self._queued, self._queued_bytes = self._queued, [], 0
        slots = self._load(queued)
        count = len(slots)
        if count == 0:
            return
        requests = (Request * count)(*[slot.request for slot in slots])
        tickets = (c_uint64 * count)()
        try:
            operations.check(library.hvd_submit(operations.context(), requests, count, tickets))
        except Exception:
            self._give_up(slots)
            raise
        for slot, ticket in zip(slots, tickets, strict=True):
            slot.ticket = ticket
        self._in_flight += slots

    def finish(self, store: bool = True) -> None:
        """Waits for everything; raises the first failure, after all have ended."""
        self._check_world()
        errors: list[Exception] = []
        try:
            self.flush()
        except (RuntimeError, ValueError) as error:
            errors.append(error)
        self._flushes_at_end = False
        if self._in_flight:
            errors += self._finish_dense(store)
        if self._sparse:
            errors += self._finish_sparse()
        if errors:
            raise errors[0]

    def _finish_dense(self, store: bool) -> list[Exception]:
        is_changed = False
        devices = dict.fromkeys([slot.device for slot in self._in_flight])
        self._uses_gpu = devices.keys() != {gpu.HOST}
        errors: list[Exception] = []
        for device in devices:
            errors += _wait_for([one for one in self._in_flight if one.device == device], device)
        for slot in self._in_flight:
            if slot.has_failed:
                continue
            if store and not slot.store():
                is_changed = True
        in_flight, self._in_flight = self._in_flight, []
        operations.release_all((c_uint64 * len(in_flight))(*[slot.ticket for slot in in_flight]))
        for slot in in_flight:
            slot.clear()
        if is_changed and not self._has_warned:
            self._has_warned = True
            warnings.warn(_CHANGED_ON_THE_WAY, stacklevel=3)
        return errors

    def check_health(self) -> None:
        """Raises where the world has ended after a GPU was made to wait for gradients: they may be
        nothing then."""
        if self._uses_gpu:
            for error in operations.broken_world():
                raise error

    def _finish_sparse(self) -> list[Exception]:
        errors = [slot.store_sparse() for slot in self._sparse]
        for slot in self._sparse:
            slot.clear()
        self._sparse = []
        return [error for error in errors if error is not None]


def _wait_for(slots: list[GradientSlot], device: int) -> list[Exception]:
    """Waits for gradients of one device; of a GPU's, the current stream does and not the host."""
    stream = 0 if device == gpu.HOST else gpu.current_stream(device)
    tickets = (c_uint64 * len(slots))(*[slot.ticket for slot in slots])
    if operations.wait_all(tickets, stream):
        found: list[Exception | None] = [None] * len(slots)
    elif device == gpu.HOST:
        found = [operations.wait(slot.ticket) for slot in slots]
    else:
        found = [operations.wait_on_stream(slot.ticket, stream) for slot in slots]
    for slot, error in zip(slots, found, strict=True):
        slot.has_failed = error is not None
        if device != gpu.HOST:
            slot.keep_for_stream(stream)
    errors = [error for error in found if error is not None]
    if device != gpu.HOST and not errors:
        errors += operations.broken_world()
    return errors


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
