# SPDX-License-Identifier: Apache-2.0
"""Horovod for TensorFlow: `import horovod.tensorflow as hvd`."""

from __future__ import annotations

from typing import Any

try:
    import tensorflow as tf
except ImportError as error:
    import sys

    raise ImportError(
        f"horovod.tensorflow needs TensorFlow, which {sys.executable} does not have: "
        f"pip install tensorflow"
    ) from error

if tuple(int(part) for part in tf.__version__.split(".")[:2]) < (2, 16):
    raise ImportError(
        f"horovod.tensorflow needs TensorFlow 2.16 or later; this is {tf.__version__}"
    )

from horovod.common import world
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
from horovod.common.util import (
    check_extension,
    extension_available,
    gpu_available,
    num_rank_is_power_2,
    split_list,
)
from horovod.common.world import *  # noqa: F403
from horovod.tensorflow import elastic, mpi_ops, util
from horovod.tensorflow.collectives import (
    allreduce,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.functions import (
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from horovod.tensorflow.gradient_tape import (
    DistributedGradientTape,
    PartialDistributedGradientTape,
)
from horovod.tensorflow.mpi_ops import (
    allgather,
    alltoall,
    broadcast,
    broadcast_,
    grouped_allgather,
    handle_average_backwards_compatibility,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from horovod.tensorflow.optimizer import DistributedOptimizer
from horovod.tensorflow.util import _executing_eagerly

__all__ = [
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "SyncBatchNormalization",  # noqa: F405  (of __getattr__)
    "_executing_eagerly",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "check_extension",
    "elastic",
    "extension_available",
    "global_process_set",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "handle_average_backwards_compatibility",
    "join",
    "local_rank_op",
    "local_size_op",
    "mpi_ops",
    "num_rank_is_power_2",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "size_op",
    "split_list",
    "util",
]
__all__ += world.__all__


def __getattr__(name: str) -> Any:
    # This one brings Keras, which programs without a Keras model need not wait for.
    if name == "SyncBatchNormalization":
        from horovod.tensorflow import sync_batch_norm

        return sync_batch_norm.SyncBatchNormalization
    raise AttributeError(f"module 'horovod.tensorflow' has no attribute '{name}'")
