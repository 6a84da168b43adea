# SPDX-License-Identifier: Apache-2.0
"""The optimizer that combines steps, not gradients: DistributedOptimizer(op=hvd.Adasum)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from horovod.common import operations
from horovod.common.basics import Adasum, Max, reduce_op
from horovod.torch import submission
from horovod.torch.functions import loading_in_place
from horovod.torch.grad_scaler import let_scalers_synchronize
from horovod.torch.gradient_slot import Reduction
from horovod.torch.optimizer_arguments import check_passes, named_parameters_of
from horovod.torch.submission import Place, Settings

if TYPE_CHECKING:
    _UserClass = torch.optim.Optimizer
else:
    _UserClass = object  # the user's class follows in the bases of the class made for it


class BackwardPasses:
    """Counts the backward passes since the last step."""

    def __init__(self, passes: int) -> None:
        self.passes = passes
        self.restart()

    def restart(self) -> None:
        self._done: dict[torch.nn.Parameter, int] = {}

    def watch(self, parameter: torch.nn.Parameter) -> None:
        reference = weakref.ref(self)  # the hook ends with the optimizer

        def hook(gradient_of: torch.nn.Parameter) -> None:
            counter = reference()
            if counter is not None:
                counter.add(gradient_of)

        parameter.register_post_accumulate_grad_hook(hook)

    def add(self, parameter: torch.nn.Parameter) -> None:
        done = self._done[parameter] = self._done.get(parameter, 0) + 1
        if done > self.passes:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to "
                "step(). Increase backward_passes_per_step to accumulate gradients locally."
            )


class AdasumOptimizer(_UserClass):
    """Goes before the user's optimizer class in a class of the same name.

    Each rank steps on its own gradients; then the parameters go on from where they were by the
    ranks' steps, which Adasum combines tensor by tensor.
    """

    def _distribute(
        self,
        names: dict[torch.nn.Parameter, str],
        groups: list[list[torch.nn.Parameter]],
        reduction: Reduction,
        passes: int,
    ) -> None:
        let_scalers_synchronize()
        self.backward_passes_per_step = passes
        self._reduction = reduction
        self._parameter_names = names
        self._passes = BackwardPasses(passes)
        self._watched: set[torch.nn.Parameter] = set()
        self._group_of = {p: number for number, group in enumerate(groups, 1) for p in group}
        self._wanted()

    def _wanted(self) -> list[tuple[torch.nn.Parameter, str]]:
        """The parameters that want a gradient, also those that were added or unfrozen later."""
        wanted = [
            (parameter, name)
            for parameter, name in named_parameters_of(self, self._parameter_names)
            if parameter.requires_grad
        ]
        for parameter, _ in wanted:
            if parameter not in self._watched:
                self._watched.add(parameter)
                self._passes.watch(parameter)
        return wanted

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes accumulate locally before a step."""
        check_passes(passes)
        self.backward_passes_per_step = self._passes.passes = passes
        self._passes.restart()

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._passes.restart()
        with loading_in_place(self):
            super().load_state_dict(*args, **kwargs)

    def synchronize(self) -> None:
        """Does nothing: gradients are not combined."""

    def skip_synchronize(self) -> NoReturn:
        raise AssertionError(
            "Skipping synchronization is not supported when using Adasum optimizer."
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Steps, and combines the step with those of the other ranks."""
        wanted = self._wanted()
        if self._reduction.sparse_as_dense:
            for parameter, _ in wanted:
                if parameter.grad is not None and parameter.grad.layout != torch.strided:
                    parameter.grad = parameter.grad.to_dense()
        starts = [parameter.detach().clone() for parameter, _ in wanted]
        loss = super().step(closure)
        self._passes.restart()
        self._combine(wanted, starts)
        return loss

    @torch.no_grad()
    def _combine(
        self, wanted: list[tuple[torch.nn.Parameter, str]], starts: list[torch.Tensor]
    ) -> None:
        """Also parameters that this rank did not change take part: others may have."""
        compression = self._reduction.compression
        travelling = []
        contexts = []
        for (parameter, _), start in zip(wanted, starts, strict=True):
            delta, context = compression.compress(parameter.detach() - start)
            travelling.append(delta)
            contexts.append(context)
        combined = self._adasum([name for _, name in wanted], travelling, [p for p, _ in wanted])
        for (parameter, _), start, delta, context in zip(
            wanted, starts, combined, contexts, strict=True
        ):
            parameter.copy_(start.add_(compression.decompress(delta, context)))

    def _adasum(
        self,
        names: list[str],
        deltas: list[torch.Tensor],
        parameters: list[torch.nn.Parameter],
    ) -> list[torch.Tensor]:
        if not deltas:
            return []
        groups = [self._group_of.get(parameter, 0) for parameter in parameters]
        batch = submission.each("allreduce", list(zip(names, deltas, strict=True)), groups=groups)
        settings = Settings(
            op=operations.ALLREDUCE,
            place=Place.in_place,
            reduce_op=reduce_op(Adasum),
            process_set=self._reduction.process_set,
        )
        return submission.run(batch, settings)

    def _after_unscale(self, flags: dict[Any, torch.Tensor]) -> None:
        """Where the gradients of one rank overflow, no rank steps."""
        settings = Settings(
            op=operations.ALLREDUCE,
            place=Place.in_place,
            reduce_op=reduce_op(Max),
            process_set=self._reduction.process_set,
        )
        for flag in flags.values():
            submission.run(submission.one("allreduce", "adasum.found_inf", flag), settings)


# The user's step, which ours calls, runs the hooks; torch wraps what is not marked when it loads.
AdasumOptimizer.step.hooked = True  # type: ignore[attr-defined]
