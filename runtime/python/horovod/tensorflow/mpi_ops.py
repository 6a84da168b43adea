# SPDX-License-Identifier: Apache-2.0
"""The world, and the collectives on tensors as they are; named as in the original.

`op` here is hvd.Sum unless said otherwise; horovod.tensorflow averages by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common import world
from horovod.common.basics import Sum, basics, reduce_op
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.common.world import *  # noqa: F403
from horovod.tensorflow import autodiff as _autodiff  # noqa: F401  (registers the gradients)
from horovod.tensorflow import ops
from horovod.tensorflow.ops import Call
from horovod.tensorflow.util import as_it_is, native_variable

__all__ = [
    "allgather",
    "alltoall",
    "broadcast",
    "broadcast_",
    "grouped_allgather",
    "handle_average_backwards_compatibility",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "size_op",
]
__all__ += world.__all__

_basics = basics
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(basics)


def _reduction(
    name: str | None,
    op: int,
    prescale_factor: float,
    postscale_factor: float,
    ignore_name_scope: bool,
    process_set: ProcessSet,
) -> Call:
    return Call(
        name=name,
        reduce_op=reduce_op(op),
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        ignore_name_scope=ignore_name_scope,
        process_set_id=process_set_id(process_set),
    )


@as_it_is
def _allreduce(
    tensor: Any,
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The tensor reduced over the ranks. Differentiable; `name` is the same on all ranks."""
    call = _reduction(name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
    return ops.allreduce(tf.convert_to_tensor(tensor), call)


@as_it_is
def _grouped_allreduce(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """As _allreduce for several tensors that travel and complete as a unit."""
    call = _reduction(name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
    return ops.grouped_allreduce([tf.convert_to_tensor(one) for one in tensors], call)


@as_it_is
def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The ranks' tensors one after another along the first dimension, in which they may differ.
    Differentiable."""
    call = Call(
        name=name,
        ignore_name_scope=ignore_name_scope,
        process_set_id=process_set_id(process_set),
    )
    return ops.allgather(tf.convert_to_tensor(tensor), call)


@as_it_is
def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """As allgather for several tensors that complete as a unit."""
    call = Call(
        name=name,
        ignore_name_scope=ignore_name_scope,
        process_set_id=process_set_id(process_set),
    )
    return ops.grouped_allgather([tf.convert_to_tensor(one) for one in tensors], call)


@as_it_is
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """The root's tensor, on every rank. Differentiable."""
    call = Call(
        name=name,
        root_rank=root_rank,
        ignore_name_scope=ignore_name_scope,
        process_set_id=process_set_id(process_set),
    )
    return ops.broadcast(tf.convert_to_tensor(tensor), call)


@as_it_is
def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Gives the variables the root's values, all in one go, and returns them (in a graph, with the
    assignment as a dependency)."""
    own = [native_variable(variable) for variable in variables]
    call = Call(
        name=name or "HorovodBroadcastVariables",
        root_rank=root_rank,
        process_set_id=process_set_id(process_set),
    )
    values = ops.grouped_broadcast([variable.read_value() for variable in own], call)
    return [variable.assign(value) for variable, value in zip(own, values, strict=True)]


@as_it_is
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
    """Sends rows of the first dimension to every rank of the set: `splits[i]` of them to its i-th,
    or equal shares. The rows that came, and, where `splits` is given, how many from each rank.
    Differentiable."""
    call = Call(
        name=name,
        ignore_name_scope=ignore_name_scope,
        process_set_id=process_set_id(process_set),
    )
    shares = tf.constant([], tf.int32) if splits is None else _as_splits(splits)
    output, received_splits = ops.alltoall(tf.convert_to_tensor(tensor), shares, call)
    return output if splits is None else (output, received_splits)


def _as_splits(splits: Any) -> tf.Tensor:
    """Numbers become int32. A tensor of another type stays: the op refuses it."""
    if isinstance(splits, (tf.Tensor, tf.Variable)):
        return tf.convert_to_tensor(splits)
    return tf.convert_to_tensor(splits, tf.int32)


@as_it_is
def _reducescatter(
    tensor: Any,
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """This rank's rows of the tensor reduced over the ranks. Differentiable."""
    call = _reduction(name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
    return ops.reducescatter(tf.convert_to_tensor(tensor), call)


@as_it_is
def _grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    """As _reducescatter for several tensors that complete as a unit."""
    call = _reduction(name, op, prescale_factor, postscale_factor, ignore_name_scope, process_set)
    return ops.grouped_reducescatter([tf.convert_to_tensor(one) for one in tensors], call)


@as_it_is
def join() -> tf.Tensor:
    """Says that this rank has no more data: until all ranks have joined it contributes neutral
    elements to the others' allreduces. Returns the rank that joined last."""
    return ops.join(Call(wire_name="join.noname"))


@as_it_is
def rank_op(name: str | None = None) -> tf.Tensor:
    """This rank's number as the running graph sees it; the others alike."""
    return ops.lib.horovod_rank(name=name)


@as_it_is
def local_rank_op(name: str | None = None) -> tf.Tensor:
    return ops.lib.horovod_local_rank(name=name)


@as_it_is
def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """How many ranks the process set has."""
    return ops.lib.horovod_size(process_set_id=process_set_id, name=name)


@as_it_is
def local_size_op(name: str | None = None) -> tf.Tensor:
    return ops.lib.horovod_local_size(name=name)


@as_it_is
def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """1 where this rank belongs to the process set and 0 where it does not; -1 before hvd.init(),
    -3 where there is no such set."""
    return ops.lib.horovod_process_set_included(process_set_id=process_set_id, name=name)
