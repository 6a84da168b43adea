# SPDX-License-Identifier: Apache-2.0
"""hvd.DistributedOptimizer for the optimizers of Keras 3, tf_keras and TensorFlow 1."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import Adasum, Average, basics
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.delta_optimizer import DeltaV1Optimizer
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper
from horovod.tensorflow.gradient_reducer import GradientReducer, ReducerSettings


class _DistributedV1Optimizer:
    """What a wrapped tf.compat.v1.train.Optimizer does differently. `_reducer` and `_agg_helper`
    are set on the class made for it."""

    _reducer: GradientReducer
    _agg_helper: LocalGradientAggregationHelper | None

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays each rank's own."""
        self._reducer.register_local(var)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        pairs = super().compute_gradients(*args, **kwargs)  # type: ignore[misc]
        gradients, variables = zip(*pairs, strict=True)
        reduce = (
            self._reducer.reduce if not self._agg_helper else self._agg_helper.compute_gradients
        )
        return list(zip(reduce(gradients, variables), variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        parent = super()
        pairs = list(grads_and_vars)
        if not self._agg_helper:
            return parent.apply_gradients(pairs, global_step, name)  # type: ignore[misc]
        done = self._agg_helper.apply_gradients(
            lambda: parent.apply_gradients(pairs, global_step, name),  # type: ignore[misc]
            self,
            pairs,
            global_step=global_step,
        )
        return done if tf.executing_eagerly() else tf.group(done)


def _distribute_v1(optimizer: Any, wrapper: type, **fields: Any) -> Any:
    """A copy of the optimizer whose class does what the wrapper says."""
    wrapped = copy.copy(optimizer)
    kind = type(optimizer)
    wrapped.__class__ = type(
        kind.__name__, (wrapper, kind), {"__module__": kind.__module__, **fields}
    )
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

    The arguments are those of horovod.tensorflow.keras.DistributedOptimizer, which this is for the
    optimizers of Keras. A TensorFlow 1 optimizer takes `use_locking` too, and with op=hvd.Adasum
    combines the steps that the ranks took alone.
    """
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        from horovod.tensorflow.keras import DistributedOptimizer as KerasDistributedOptimizer

        return KerasDistributedOptimizer(
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
    settings = ReducerSettings(
        name=name or f"Distributed{type(optimizer).__name__}",
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
        device_dense=device_dense,
        device_sparse=device_sparse,
    )
    reducer = GradientReducer(settings)
    if op == Adasum:
        if average_aggregated_gradients:
            raise ValueError("op=hvd.Adasum combines steps: it cannot average_aggregated_gradients")
        if backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step={backward_passes_per_step}: it must be positive"
            )
        wrapped = _distribute_v1(
            optimizer, DeltaV1Optimizer, _reducer=reducer, _passes=backward_passes_per_step
        )
    else:
        helper = _make_helper(
            reducer, backward_passes_per_step, average_aggregated_gradients, settings
        )
        wrapped = _distribute_v1(
            optimizer, _DistributedV1Optimizer, _reducer=reducer, _agg_helper=helper
        )
    wrapped._use_locking = wrapped._use_locking or use_locking
    wrapped._optimizer = optimizer  # under the name that the original has
    return wrapped


def _make_helper(
    reducer: GradientReducer, passes: int, average: bool, settings: ReducerSettings
) -> LocalGradientAggregationHelper | None:
    if passes == 1:
        return None
    return LocalGradientAggregationHelper(
        backward_passes_per_step=passes,
        allreduce_func=reducer.reduce,
        sparse_as_dense=settings.sparse_as_dense,
        average_aggregated_gradients=average,
        rank=basics.rank(),
        optimizer_type=LocalGradientAggregationHelper._OPTIMIZER_TYPE_LEGACY,
        process_set=settings.process_set,
        scale_local_gradients=settings.scale_local_gradients,
        name=settings.name,
    )
