# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: the user's optimizer over all ranks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch

from horovod.common.basics import Adasum, Average, reduce_op
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch.adasum_optimizer import AdasumOptimizer
from horovod.torch.compression import Compression, Compressor
from horovod.torch.gradient_optimizer import GradientOptimizer as _DistributedOptimizer
from horovod.torch.gradient_slot import Reduction
from horovod.torch.optimizer_arguments import check_groups, check_passes, has_peers, names_of


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
    `groups`, make gradients travel as units. With hvd.Adasum each rank steps on its own gradients,
    and the steps are combined. The result has the class name of the optimizer given, and its
    options and state.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    check_passes(backward_passes_per_step)
    reduce_op(op)
    if num_groups:
        warnings.warn(
            "Parameter `num_groups` has been replaced by `groups` and will be removed",
            DeprecationWarning,
            stacklevel=2,
        )
    names = {} if named_parameters is None else names_of(optimizer, named_parameters)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    kind = type(optimizer)
    is_adasum = op == Adasum and has_peers(process_set)
    bases: Any = (AdasumOptimizer if is_adasum else _DistributedOptimizer, kind)
    distributed: Any = type(kind.__name__, bases, {"__module__": kind.__module__})
    wrapped: _DistributedOptimizer | AdasumOptimizer = distributed.__new__(distributed)
    # A scheduler made before may have replaced `step` on the instance; ours must be found.
    wrapped.__dict__.update({k: v for k, v in optimizer.__dict__.items() if k != "step"})
    wrapped._distribute(
        names,
        check_groups(parameters, num_groups if groups is None else groups),
        Reduction(
            op=op,
            prescale=1.0 / gradient_predivide_factor,
            postscale=gradient_predivide_factor,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            process_set=process_set,
        ),
        backward_passes_per_step,
    )
    return wrapped
