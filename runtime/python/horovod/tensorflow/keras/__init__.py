# SPDX-License-Identifier: Apache-2.0
"""Horovod for tf.keras: `import horovod.tensorflow.keras as hvd`."""

from __future__ import annotations

import horovod.tensorflow  # noqa: F401  (first: it says what is missing)

# isort: split
from collections.abc import Sequence
from typing import Any

from horovod._keras import wrapping
from horovod._keras.loading import load_model
from horovod._keras.on_tensorflow import broadcast_global_variables, broadcast_variables
from horovod._keras.values import Compression, allgather, allreduce, broadcast, reducescatter
from horovod._keras.wrapping import PartialDistributedOptimizer
from horovod.common import world
from horovod.common.basics import Average
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.world import *  # noqa: F403
from horovod.tensorflow.functions import allgather_object, broadcast_object

from . import callbacks, elastic

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "elastic",
    "global_process_set",
    "load_model",
    "reducescatter",
    "remove_process_set",
]
__all__ += world.__all__


def DistributedOptimizer(
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
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """An optimizer with the class, settings and state of `optimizer` that applies the gradients of
    all ranks. It is saved with a model as the optimizer it was made from.

    name: begins the name of its operations.
    compression: hvd.Compression.fp16 sends floating point gradients as float16.
    sparse_as_dense: makes IndexedSlices gradients dense first; they are gathered otherwise.
    gradient_predivide_factor: splits the division by the number of ranks: gradients are divided by
        the factor before they are summed, the sum is divided by size / factor.
    op: hvd.Average, Sum, Min, Max or Product.
    backward_passes_per_step: sums the gradients of so many passes on this rank, or averages them
        with average_aggregated_gradients, before one exchange and one step.
    num_groups, groups: the gradients travel as one group unless told otherwise: as so many groups,
        or as the lists of variables given, the others alone.
    process_set: the ranks whose gradients are reduced; other ranks keep their own.
    scale_local_gradients: divides the gradients of variables given to register_local_var, which
        are not reduced, by the number of ranks.
    device_dense, device_sparse: the devices of the operations.
    """
    return wrapping.distribute(
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
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
