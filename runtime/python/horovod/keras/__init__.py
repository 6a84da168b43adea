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
from horovod.common import objects
from horovod.common.basics import Adasum, Average, Max, Min, Product, Sum, basics
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    process_set_id,
    remove_process_set,
)
from horovod.keras import callbacks, elastic

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "metrics",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]

ccl_built = basics.ccl_built
cross_rank = basics.cross_rank
cross_size = basics.cross_size
cuda_built = basics.cuda_built
ddl_built = basics.ddl_built
gloo_built = basics.gloo_built
gloo_enabled = basics.gloo_enabled
init = basics.init
is_homogeneous = basics.is_homogeneous
is_initialized = basics.is_initialized
local_rank = basics.local_rank
local_size = basics.local_size
metrics = basics.metrics
mpi_built = basics.mpi_built
mpi_enabled = basics.mpi_enabled
mpi_threads_supported = basics.mpi_threads_supported
nccl_built = basics.nccl_built
rank = basics.rank
rocm_built = basics.rocm_built
shutdown = basics.shutdown
size = basics.size
start_timeline = basics.start_timeline
stop_timeline = basics.stop_timeline
broadcast_global_variables = framework().broadcast_global_variables
broadcast_variables = framework().broadcast_variables


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


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The root's Python object, on every rank of the set. `session` is not needed."""
    return objects.broadcast_object(obj, root_rank, name, process_set_id(process_set))


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """The objects of all ranks of the set, by rank, on each of them. `session` is not needed."""
    return objects.allgather_object(obj, name, process_set_id(process_set))
