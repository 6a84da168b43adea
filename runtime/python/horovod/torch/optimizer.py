# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: the user's optimizer, stepping on gradients combined over all ranks."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from horovod.common import process_sets as sets
from horovod.common.basics import Adasum, Average, basics, reduce_op
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import split_list
from horovod.torch.compression import Compression, Compressor
from horovod.torch.functions import loading_in_place
from horovod.torch.gradient_queue import (
    GradientQueue,
    GradientSlot,
    Reduction,
    hook_of,
    make_groups,
)

if TYPE_CHECKING:
    _UserClass = torch.optim.Optimizer
else:
    _UserClass = object  # the user's class follows in the bases of the class made below


class _DistributedOptimizer(_UserClass):
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
        self._queue = GradientQueue()
        self._slots: dict[torch.nn.Parameter, GradientSlot] = {}
        self._parameter_names = names
        self._synchronized = False
        self._should_synchronize = True
        self._is_unscaled = False
        self._is_distributed = basics.size() > 1
        if self._is_distributed:
            self._add_slots()
            make_groups([[self._slots[p] for p in group if p in self._slots] for group in groups])

    def _parameters(self) -> Iterator[tuple[torch.nn.Parameter, str]]:
        for group_index, group in enumerate(self.param_groups):
            for index, parameter in enumerate(group["params"]):
                name = self._parameter_names.get(parameter)
                yield parameter, name or f"noname.{group_index}.{index}"

    def _add_slots(self) -> None:
        """Hooks the parameters that want a gradient and have no hook yet: all of them at first,
        later those that were added or unfrozen."""
        for parameter, name in self._parameters():
            if parameter.requires_grad and parameter not in self._slots:
                slot = GradientSlot(name, parameter, self._reduction)
                slot.passes_left = self.backward_passes_per_step
                self._slots[parameter] = slot
                parameter.register_post_accumulate_grad_hook(hook_of(self._queue, slot))

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Starts again: gradients on their way are awaited and dropped."""
        self._queue.finish(store=False)
        self._reset_passes()
        self._synchronized = self._is_unscaled = False
        self._should_synchronize = True
        with loading_in_place(self):
            super().load_state_dict(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes accumulate locally before gradients are combined."""
        _check_passes(passes)
        self.backward_passes_per_step = passes
        self._reset_passes()

    def _reset_passes(self) -> None:
        for slot in self._slots.values():
            slot.passes_left = self.backward_passes_per_step

    def synchronize(self) -> None:
        """Waits until all gradients are combined. `step` does it, unless within skip_synchronize.

        Gradients that this rank did not compute take part as zeros, since others may have them.
        """
        if self._is_distributed:
            self._synchronize()
        self._synchronized = True
        self._is_unscaled = False

    def _synchronize_to_unscale(self) -> None:
        """The step, if there is one, does not synchronize again."""
        if not self._synchronized or self._is_unscaled:
            self.synchronize()
            self._is_unscaled = True

    @torch.no_grad()
    def _synchronize(self) -> None:
        self._add_slots()
        for slot in self._slots.values():
            wanted = slot.parameter.requires_grad or slot.parameter.grad is not None
            if wanted and not (slot.is_taken or slot.is_ready):
                self._queue.submit(slot)
        self._reset_passes()
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


def _let_scalers_synchronize() -> None:
    """torch's GradScaler divides gradients where they are, and looks for overflow in them: those of
    all ranks, not those on their way. Every way of it, also that of fused optimizers, goes through
    one method."""
    kind = getattr(torch.amp, "GradScaler", None)  # not in old versions
    unscale = getattr(kind, "_unscale_grads_", None)
    if kind is None or unscale is None:
        return

    @functools.wraps(unscale)
    def unscale_combined(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(optimizer, _DistributedOptimizer):
            optimizer._synchronize_to_unscale()
        return unscale(scaler, optimizer, *args, **kwargs)

    kind._unscale_grads_ = unscale_combined


_let_scalers_synchronize()

# The user's step, which ours calls, runs the hooks; torch wraps what is not marked when it loads.
_DistributedOptimizer.step.hooked = True  # type: ignore[attr-defined]


def _check_passes(passes: int) -> None:
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step is {passes}: it must be greater than 0")


def _names_of(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]]
) -> dict[torch.nn.Parameter, str]:
    """Checks what the user gave; every parameter of the optimizer needs a name of its own."""
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: "
            f"{', '.join(twice)}"
        )
    names = {parameter: name for name, parameter in pairs}
    unnamed = [
        f"{group_index}.{index} of shape {list(parameter.shape)}"
        for group_index, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
        if parameter not in names
    ]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named: "
            f"parameters (group.index) {', '.join(unnamed)}"
        )
    return names


def _check_groups(
    parameters: Sequence[torch.nn.Parameter],
    groups: Sequence[Sequence[torch.nn.Parameter]] | int | None,
) -> list[list[torch.nn.Parameter]]:
    """The lists of parameters whose gradients travel as a unit."""
    if groups is None or (isinstance(groups, int) and groups == 0):
        return []
    if isinstance(groups, int) and groups > 0:
        return split_list(parameters, groups)
    if not isinstance(groups, list) or not all(isinstance(one, list | tuple) for one in groups):
        raise ValueError(
            f"groups should be a positive number or a list of lists of parameters, not {groups!r}"
        )
    members = [parameter for group in groups for parameter in group]
    if not all(isinstance(parameter, torch.Tensor) for parameter in members):
        raise ValueError("groups must consist of lists of torch.Tensor")
    if len(members) != len(set(members)):
        raise ValueError("groups name a parameter twice: each may be in one group only")
    return [list(group) for group in groups]


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: list[list[torch.nn.Parameter]] | int | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> torch.optim.Optimizer:
    """`optimizer` with gradients combined over all ranks before each step.

    Gradients travel while backward still runs, under the names in `named_parameters`; without it
    under their place in the optimizer. `gradient_predivide_factor` splits the division of an
    average into one by the factor before the sum and the rest after it. `num_groups`, or lists in
    `groups`, make gradients travel as units. The result has the class name of the optimizer given,
    and its options and state.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if op == Adasum:
        raise NotImplementedError("DistributedOptimizer(op=hvd.Adasum) is not supported yet")
    sets.process_set_id(process_set)
    _check_passes(backward_passes_per_step)
    if num_groups:
        warnings.warn(
            "Parameter `num_groups` has been replaced by `groups` and will be removed",
            DeprecationWarning,
            stacklevel=2,
        )
    names = {} if named_parameters is None else _names_of(optimizer, named_parameters)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    kind = type(optimizer)
    bases: Any = (_DistributedOptimizer, kind)
    distributed: Any = type(kind.__name__, bases, {"__module__": kind.__module__})
    wrapped: _DistributedOptimizer = distributed.__new__(distributed)
    # A scheduler made before may have replaced `step` on the instance; ours must be found.
    wrapped.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    wrapped._distribute(
        names,
        _check_groups(parameters, num_groups if groups is None else groups),
        Reduction(
            reduce_op=reduce_op(op),
            prescale=1.0 / gradient_predivide_factor,
            postscale=gradient_predivide_factor,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
        ),
        backward_passes_per_step,
    )
    return wrapped
