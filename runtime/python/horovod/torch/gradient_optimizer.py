# SPDX-License-Identifier: Apache-2.0
"""The optimizer that steps on gradients combined over all ranks."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from horovod.torch.functions import loading_in_place
from horovod.torch.grad_scaler import let_scalers_synchronize
from horovod.torch.gradient_queue import GradientQueue, make_groups
from horovod.torch.gradient_slot import Reduction
from horovod.torch.optimizer_arguments import check_passes, has_peers, named_parameters_of

if TYPE_CHECKING:
    _UserClass = torch.optim.Optimizer
else:
    _UserClass = object  # the user's class follows in the bases of the class made below


class GradientOptimizer(_UserClass):
    """Goes before the user's optimizer class in a class of the same name.

    With one rank nothing is hooked, and every method is that of the user's class.
    """

    def _distribute(
        self,
        names: dict[torch.nn.Parameter, str],
        groups: list[list[torch.nn.Parameter]],
        reduction: Reduction,
        passes: int,
    ) -> None:
        self.backward_passes_per_step = passes
        self._reduction = reduction
        self._queue = GradientQueue(passes)
        self._parameter_names = names
        self._synchronized = False
        self._should_synchronize = True
        self._is_unscaled = False
        self._is_distributed = has_peers(reduction.process_set)
        if self._is_distributed:
            let_scalers_synchronize()
            self._add_slots()
            slots = self._queue.slots
            ids = [[id(parameter) for parameter in group] for group in groups]
            make_groups([[slots[one] for one in group if one in slots] for group in ids])

    def _add_slots(self) -> None:
        """Hooks the parameters that want a gradient and have no hook yet: all of them at first,
        later those that were added or unfrozen."""
        slots = self._queue.slots
        parameters = (one for group in self.param_groups for one in group["params"])
        if not any(id(one) not in slots and one.requires_grad for one in parameters):
            return
        for parameter, name in named_parameters_of(self, self._parameter_names):
            if parameter.requires_grad and id(parameter) not in slots:
                self._queue.add(name, parameter, self._reduction)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Starts again: gradients on their way are awaited and dropped."""
        self._queue.finish(store=False)
        self._queue.reset_passes()
        self._synchronized = self._is_unscaled = False
        self._should_synchronize = True
        with loading_in_place(self):
            super().load_state_dict(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes accumulate locally before gradients are combined."""
        check_passes(passes)
        self.backward_passes_per_step = self._queue.passes = passes
        self._queue.reset_passes()

    def synchronize(self) -> None:
        """Waits until all gradients are combined. `step` does it, unless within skip_synchronize.

        Gradients that this rank did not compute take part as zeros, since others may have them.
        """
        if self._is_distributed:
            self._synchronize()
        self._synchronized = True
        self._is_unscaled = False

    def _before_unscale(self) -> None:
        """The step, if there is one, does not synchronize again."""
        if not self._synchronized or self._is_unscaled:
            self.synchronize()
            self._is_unscaled = True

    @torch.no_grad()
    def _synchronize(self) -> None:
        self._queue.has_outstanding()
        self._add_slots()
        for slot in self._queue.slots.values():
            if slot.is_taken or slot.is_ready:
                continue
            if slot.parameter.requires_grad or slot.parameter.grad is not None:
                self._queue.submit(slot)
        self._queue.reset_passes()
        self._queue.finish()

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it `step` does not synchronize, because synchronize() was called before:

        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
        """
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Combines the gradients, then steps. A closure's gradients are combined each time."""
        if closure is not None and self._is_distributed and self._should_synchronize:
            return super().step(self._synchronizing(closure))
        is_combined = self._is_unscaled and not self._queue.has_outstanding()
        if self._should_synchronize and not is_combined:
            if self._synchronized and not self._is_unscaled:
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after "
                    "optimizer.synchronize(). This can cause training slowdown. You may want to "
                    "consider using optimizer.skip_synchronize() context if you use "
                    "optimizer.synchronize() in your code.",
                    stacklevel=2,
                )
            self.synchronize()
        elif self._is_distributed:
            self._queue.check_health()
        self._synchronized = self._is_unscaled = False
        return super().step(closure)

    def _synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def evaluate() -> Any:
            with torch.enable_grad():
                loss = closure()
            self.synchronize()
            self._synchronized = False
            return loss

        return evaluate

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._queue.has_outstanding():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause "
                "a race condition."
            )
        super().zero_grad(*args, **kwargs)


# The user's step, which ours calls, runs the hooks; torch wraps what is not marked when it loads.
GradientOptimizer.step.hooked = True  # type: ignore[attr-defined]
