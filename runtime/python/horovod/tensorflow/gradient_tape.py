# SPDX-License-Identifier: Apache-2.0
"""A tf.GradientTape whose gradients are those of all ranks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import Average
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.reduction import local_variables_of
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.gradient_reducer import Gradient, GradientReducer, ReducerSettings
from horovod.tensorflow.util import as_it_is


class _DistributedTape(tf.GradientTape):
    """The class that a wrapped tape gets. `_reducer` is set by DistributedGradientTape."""

    _reducer: GradientReducer

    @as_it_is
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """`use_generic_names` asks for names that do not come from the variables', which may differ
        between ranks: they never do, but from the position."""
        own = super().gradient(target, sources, output_gradients, unconnected_gradients)
        reduced = self._reducer.reduce(tf.nest.flatten(own), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(own, reduced)

    @as_it_is
    def get_local_and_global_gradients(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> tuple[list[tuple[Any, Gradient]], list[tuple[Any, Gradient]]]:
        """What gradient() gives, as pairs of source and gradient: first those of local sources,
        then the others."""
        gradients = self.gradient(
            target, sources, output_gradients, unconnected_gradients, use_generic_names
        )
        pairs = list(zip(tf.nest.flatten(sources), tf.nest.flatten(gradients), strict=True))
        local = [self._reducer.is_local(source) for source, _ in pairs]
        return (
            [pair for pair, is_local in zip(pairs, local, strict=True) if is_local],
            [pair for pair, is_local in zip(pairs, local, strict=True) if not is_local],
        )

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays each rank's own."""
        self._reducer.register_local(source)


@as_it_is
def DistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A tape that shares what `gradtape` recorded and whose gradient() reduces over the ranks.

    The arguments are those of DistributedOptimizer.
    """
    settings = ReducerSettings(
        name="DistributedGradientTape",
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
    tape = copy.copy(gradtape)
    kind = type(gradtape)
    tape.__class__ = type(kind.__name__, (_DistributedTape, kind), {"__module__": kind.__module__})
    tape._reducer = GradientReducer(settings)
    return tape


@as_it_is
def PartialDistributedGradientTape(
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Any]] | None = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """As DistributedGradientTape; the gradients of `local_layers`, a Keras layer or a list of them,
    stay each rank's own."""
    local_variables = local_variables_of(local_layers)
    tape = DistributedGradientTape(
        gradtape,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )
    for variable in local_variables:
        tape.register_local_source(variable)
    return tape
