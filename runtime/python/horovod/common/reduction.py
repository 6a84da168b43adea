# SPDX-License-Identifier: Apache-2.0
"""How the gradients of a step are reduced: what the arguments of DistributedOptimizer and
DistributedGradientTape say in common, whatever the framework."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from horovod.common.basics import Average, reduce_op
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.common.util import split_list


@dataclass(frozen=True)
class ReducerSettings:
    """`name` begins the names of the operations: with `is_wire_name` it is, with a number, the name
    on every rank, otherwise graphs add the place of the node. `compression` is of the framework.
    """

    name: str
    compression: Any
    is_wire_name: bool = False
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    num_groups: int = 0
    groups: int | Sequence[Sequence[Any]] | None = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True
    device_dense: str = ""
    device_sparse: str = ""

    def __post_init__(self) -> None:
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise ValueError(
                f"gradient_predivide_factor={self.gradient_predivide_factor} needs op=hvd.Average"
            )
        if self.num_groups < 0:
            raise ValueError(f"num_groups={self.num_groups}: it must not be negative")
        if self.num_groups != 0:
            warnings.warn(
                "Parameter `num_groups` has been replaced by `groups` and will be removed",
                DeprecationWarning,
                stacklevel=5,
            )
        is_count = isinstance(self.groups, int) and self.groups >= 0
        if self.groups is not None and not is_count and not isinstance(self.groups, (list, tuple)):
            raise ValueError(
                f"groups={self.groups!r}: it should be a non-negative integer or a list of lists "
                f"of variables"
            )
        reduce_op(self.op)
        process_set_id(self.process_set)

    @property
    def size(self) -> int:
        """How many ranks there are to reduce over; 1 where this rank takes no part."""
        if not self.process_set.included():
            return 1
        return self.process_set.size() or 1

    def batches(
        self,
        places: list[int],
        variables: Sequence[Any],
        key: Callable[[Any], Hashable],
    ) -> list[list[int]]:
        """Which of the places travel together. The same on every rank: it follows from the order.
        All are one group, unless the settings ask for other ones."""
        wanted = self.num_groups or self.groups or 1
        if not places:
            return []
        if isinstance(wanted, int):
            return split_list(places, wanted)
        unused = {key(variables[place]): place for place in places}
        chosen = [[unused.pop(one) for one in map(key, group) if one in unused] for group in wanted]
        return [group for group in chosen if group] + [[place] for place in unused.values()]


def local_variables_of(local_layers: Any) -> Sequence[Any]:
    """The trainable weights of one layer, or of a list of layers, or of none."""
    layers = [] if local_layers is None else local_layers
    layers = list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    for layer in layers:
        if not hasattr(layer, "trainable_weights"):
            raise ValueError(f"local_layers has {layer!r}: all of them must be layers of Keras")
    return [weight for layer in layers for weight in layer.trainable_weights]
