# SPDX-License-Identifier: Apache-2.0
"""The gradients of one step, reduced over the ranks: what tapes and optimizers share."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import process_set_id
from horovod.common.reduction import ReducerSettings
from horovod.tensorflow import ops
from horovod.tensorflow.collectives import Wire, allreduce_slices, require_op_of_slices
from horovod.tensorflow.mpi_ops import reduce_op
from horovod.tensorflow.util import key_of, on_device

__all__ = ["Gradient", "GradientReducer", "ReducerSettings"]

Gradient = tf.Tensor | tf.IndexedSlices | None

_numbers = itertools.count()


class GradientReducer:
    """Reduces gradients by the settings, but for those of local variables. Safe in graphs and in
    eager code."""

    def __init__(self, settings: ReducerSettings) -> None:
        self.settings = settings
        self._local: set[Any] = set()

    @functools.cached_property
    def name(self) -> str:
        """What begins the names of the operations. Two optimizers never share one on the wire: they
        are numbered when they first reduce, which all ranks do in the same order, while one rank
        may make and load optimizers for itself."""
        name = self.settings.name
        return f"{name}.{next(_numbers)}" if self.settings.is_wire_name else name

    def register_local(self, source: Any) -> None:
        """The gradient of this variable, or other source, stays each rank's own. It is divided by
        the number of ranks unless scale_local_gradients is False."""
        self._local.add(key_of(source))

    def is_local(self, source: Any) -> bool:
        return key_of(source) in self._local

    def reduce(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """Each gradient over all ranks; None stays None. All that is dense travels as one group,
        unless the settings ask for other groups."""
        results: list[Gradient] = list(gradients)
        if self.settings.sparse_as_dense:
            results = [_dense(gradient) for gradient in results]
        if self.settings.size == 1:
            return results
        shared = self._scale_local(results, variables)
        sparse = [i for i in shared if isinstance(results[i], tf.IndexedSlices)]
        dense = [i for i in shared if results[i] is not None and i not in set(sparse)]
        if sparse:
            require_op_of_slices(self.settings.op)
        with on_device(self.settings.device_dense):
            for number, places in enumerate(self.settings.batches(dense, variables, key_of)):
                reduced = self._reduce_group([results[i] for i in places], f"group{number}")
                for i, tensor in zip(places, reduced, strict=True):
                    results[i] = tensor
        with on_device(self.settings.device_sparse):
            gathered = allreduce_slices(
                [results[i] for i in sparse],
                self.settings.op,
                1.0,
                Wire(f"{self.name}_sparse", self.settings.process_set, self.settings.compression),
            )
        for i, slices in zip(sparse, gathered, strict=True):
            results[i] = slices
        return results

    def _scale_local(self, results: list[Gradient], variables: Sequence[Any]) -> list[int]:
        """Scales the gradients of local variables; the places of the others."""
        if not self._local:
            return list(range(len(results)))
        own = [i for i, one in enumerate(variables) if self.is_local(one)]
        if self.settings.scale_local_gradients:
            for i in own:
                results[i] = scaled(results[i], 1.0 / self.settings.size)
        return [i for i in range(len(results)) if i not in set(own)]

    def _reduce_group(self, tensors: list[tf.Tensor], label: str) -> list[tf.Tensor]:
        settings = self.settings
        packed = [settings.compression.compress(tensor) for tensor in tensors]
        name = f"{self.name}_{label}"
        reduced = ops.grouped_allreduce(
            [tensor for tensor, _ in packed],
            ops.Call(
                name=name,
                wire_name=name if settings.is_wire_name else "",
                reduce_op=reduce_op(settings.op),
                prescale_factor=1.0 / settings.gradient_predivide_factor,
                postscale_factor=settings.gradient_predivide_factor,
                process_set_id=process_set_id(settings.process_set),
            ),
        )
        return [
            settings.compression.decompress(tensor, ctx)
            for tensor, (_, ctx) in zip(reduced, packed, strict=True)
        ]


def _dense(gradient: Gradient) -> Gradient:
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def scaled(gradient: Gradient, factor: float) -> Gradient:
    """The gradient times a number."""
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
