# SPDX-License-Identifier: Apache-2.0
"""The gradients of one step, reduced over the ranks: what tapes and optimizers share."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from horovod.common.basics import Average, basics
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.common.util import split_list
from horovod.tensorflow import ops
from horovod.tensorflow.collectives import allreduce_slices
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import reduce_op
from horovod.tensorflow.util import native_variable

Gradient = tf.Tensor | tf.IndexedSlices | None


@dataclass(frozen=True)
class ReducerSettings:
    """What the arguments of DistributedOptimizer and DistributedGradientTape say in common.

    `name` begins the names of the operations: with `is_wire_name` it is, with a number, the name on
    every rank, otherwise graphs add the place of the node.
    """

    name: str
    is_wire_name: bool = False
    compression: type[Compressor] = Compression.none
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    num_groups: int = 0
    groups: int | Sequence[Sequence[Any]] | None = None
    process_set: ProcessSet = global_process_set

    def __post_init__(self) -> None:
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError(
                f"gradient_predivide_factor={self.gradient_predivide_factor} needs op=hvd.Average"
            )
        if self.num_groups < 0:
            raise ValueError(f"num_groups={self.num_groups}: it must not be negative")
        if self.groups is not None and not isinstance(self.groups, (int, list, tuple)):
            raise ValueError(
                f"groups={self.groups!r}: use a positive number, or lists of variables"
            )
        if isinstance(self.groups, int) and self.groups < 1:
            raise ValueError(f"groups={self.groups}: use a positive number, or lists of variables")
        reduce_op(self.op)
        process_set_id(self.process_set)


_numbers = itertools.count()


class GradientReducer:
    """Reduces gradients by the settings. Has no state but its name: safe in graphs and in eager
    code."""

    def __init__(self, settings: ReducerSettings) -> None:
        self.settings = settings

    @functools.cached_property
    def name(self) -> str:
        """What begins the names of the operations. Two optimizers never share one on the wire: they
        are numbered when they first reduce, which all ranks do in the same order, while one rank
        may make and load optimizers for itself."""
        name = self.settings.name
        return f"{name}.{next(_numbers)}" if self.settings.is_wire_name else name

    def reduce(self, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """Each gradient over all ranks; None stays None. All that is dense travels as one group,
        unless the settings ask for other groups."""
        results: list[Gradient] = list(gradients)
        if self.settings.sparse_as_dense:
            results = [_dense(gradient) for gradient in results]
        if basics.size() == 1:
            return results
        sparse = [i for i, one in enumerate(results) if isinstance(one, tf.IndexedSlices)]
        dense = [i for i, one in enumerate(results) if one is not None and i not in set(sparse)]
        for number, places in enumerate(self._groups(dense, variables)):
            reduced = self._reduce_group([results[i] for i in places], f"group{number}")
            for i, tensor in zip(places, reduced, strict=True):
                results[i] = tensor
        gathered = allreduce_slices(
            [results[i] for i in sparse],
            self.settings.op,
            1.0,
            f"{self.name}_sparse",
            self.settings.process_set,
        )
        for i, slices in zip(sparse, gathered, strict=True):
            results[i] = slices
        return results

    def _groups(self, dense: list[int], variables: Sequence[Any]) -> list[list[int]]:
        """Which positions travel together. The same on every rank: it follows from the order."""
        count = self.settings.num_groups or self.settings.groups or 1
        if not dense:
            return []
        if isinstance(count, int):
            return split_list(dense, count)
        keys = {native_variable(variables[i]).ref(): i for i in dense}
        chosen = [
            [keys.pop(key) for key in (native_variable(one).ref() for one in group) if key in keys]
            for group in count
        ]
        return [group for group in chosen if group] + [[i] for i in keys.values()]

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
