# SPDX-License-Identifier: Apache-2.0
"""Horovod for Keras: `import horovod.keras as hvd`.

It works on the Keras that the program uses: Keras 3 on TensorFlow or PyTorch, or tf_keras.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horovod._keras import wrapping
from horovod._keras.chosen import framework
from horovod._keras.loading import load_model
from horovod._keras.values import Compression, allgather, broadcast, reducescatter
from horovod._keras.values import allreduce as _allreduce
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
from horovod.keras import callbacks, elastic

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

broadcast_global_variables = framework().broadcast_global_variables
broadcast_variables = framework().broadcast_variables
broadcast_object = framework().broadcast_object
allgather_object = framework().allgather_object


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    *,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """An optimizer with the class, settings and state of `optimizer` that applies the gradients of
    all ranks. See horovod.tensorflow.keras.DistributedOptimizer for the arguments, which have
    another order there."""
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


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool = True,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = Compression.none,
) -> Any:
    """The value reduced over the ranks: averaged unless `op`, or average=False, says otherwise."""
    return _allreduce(
        value,
        name,
        None if average else False,
        prescale_factor,
        postscale_factor,
        op,
        compression,
    )
