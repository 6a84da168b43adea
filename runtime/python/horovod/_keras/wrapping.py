# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer and PartialDistributedOptimizer of both Keras front ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horovod._keras.chosen import framework
from horovod._keras.distribution import Distribution
from horovod._keras.optimizer import distributed
from horovod._keras.state import inner
from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.reduction import ReducerSettings, local_variables_of

Compression = framework().Compression


def distribute(
    optimizer: Any,
    *,
    name: str | None,
    backward_passes_per_step: int,
    average_aggregated_gradients: bool,
    **settings: Any,
) -> Any:
    """What DistributedOptimizer returns; `settings` are fields of ReducerSettings."""
    chosen = ReducerSettings(name=name or "DistributedOptimizer", is_wire_name=True, **settings)
    distribution = Distribution(
        framework(), chosen, backward_passes_per_step, average_aggregated_gradients
    )
    return distributed(optimizer, distribution)


def PartialDistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """As DistributedOptimizer; the gradients of `local_layers`, a layer or a list of them, stay
    each rank's own, divided by the number of ranks with `scale_local_gradients`."""
    local_variables = local_variables_of(local_layers)
    made = distribute(
        optimizer,
        name=name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        gradient_predivide_factor=gradient_predivide_factor,
        op=op,
        backward_passes_per_step=backward_passes_per_step,
        average_aggregated_gradients=average_aggregated_gradients,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    for variable in local_variables:
        inner(made).register_local_var(variable)  # a loss scale optimizer reduces nothing itself
    return made
