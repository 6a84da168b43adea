# SPDX-License-Identifier: Apache-2.0
"""hvd.DistributedOptimizer for the optimizers of Keras 3, tf_keras and TensorFlow 1."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.gradient_reducer import GradientReducer, ReducerSettings


class _DistributedV1Optimizer:
    """What a wrapped tf.compat.v1.train.Optimizer does differently. `_reducer` is set on the class
    made for it."""

    _reducer: GradientReducer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        pairs = super().compute_gradients(*args, **kwargs)  # type: ignore[misc]
        gradients, variables = zip(*pairs, strict=True)
        return list(zip(self._reducer.reduce(gradients, variables), variables, strict=True))


def _distribute_v1(optimizer: Any, settings: ReducerSettings) -> Any:
    wrapped = copy.copy(optimizer)
    kind = type(optimizer)
    fields = {"__module__": kind.__module__, "_reducer": GradientReducer(settings)}
    wrapped.__class__ = type(kind.__name__, (_DistributedV1Optimizer, kind), fields)
    return wrapped


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """An optimizer of the same class that applies the gradients of all ranks.

    For Keras optimizers see horovod.tensorflow.keras.DistributedOptimizer, which this is.
    `use_locking`, `device_dense` and `device_sparse` are accepted and change nothing.
    """
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from horovod.tensorflow.keras import DistributedOptimizer as KerasDistributedOptimizer

        return KerasDistributedOptimizer(
            optimizer,
            name=name,
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            gradient_predivide_factor=gradient_predivide_factor,
            op=op,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            num_groups=num_groups,
            groups=groups,
            process_set=process_set,
        )
    if backward_passes_per_step != 1:
        raise NotImplementedError(
            f"backward_passes_per_step={backward_passes_per_step} is not supported for "
            f"tf.compat.v1.train optimizers: use a Keras optimizer"
        )
    return _distribute_v1(
        optimizer,
        ReducerSettings(
            name=name or f"Distributed{type(optimizer).__name__}",
            compression=compression,
            sparse_as_dense=sparse_as_dense,
            op=op,
            gradient_predivide_factor=gradient_predivide_factor,
            num_groups=num_groups,
            groups=groups,
            process_set=process_set,
        ),
    )
