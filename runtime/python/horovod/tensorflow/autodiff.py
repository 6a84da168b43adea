# SPDX-License-Identifier: Apache-2.0
"""The gradients of the collective ops, which are collectives themselves. They are those of the
original: an average where a result of all ranks was copied to each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.common.basics import Average, Sum, basics, reduce_op
from horovod.common.process_sets import ranks_of
from horovod.tensorflow import ops
from horovod.tensorflow.ops import Call

_AVERAGE = reduce_op(Average)
_SUM = reduce_op(Sum)

Gradients = list[tf.Tensor | None]


def _call_of(op: Any) -> Call:
    """What the forward op was called with, under a name of its own: in a graph that of the forward
    op, which ranks have alike where the scopes of the gradient's tensor differ."""
    forward = op.get_attr("tensor_name").decode() or op.outputs[0].op.name.split("/")[-1]
    return Call(
        name=f"{forward}_grad",
        ignore_name_scope=op.get_attr("ignore_name_scope"),
        reduce_op=op.get_attr("reduce_op"),
        root_rank=op.get_attr("root_rank"),
        prescale_factor=float(op.get_attr("prescale_factor")),
        postscale_factor=float(op.get_attr("postscale_factor")),
        process_set_id=op.get_attr("process_set_id"),
    )


def _plain_call(op: Any, reduce_op: int = _SUM) -> Call:
    """The same without scales and root."""
    call = _call_of(op)
    return dataclasses.replace(
        call, reduce_op=reduce_op, root_rank=0, prescale_factor=1.0, postscale_factor=1.0
    )


# Every op has one more input than tensors, "live", which has no gradient.


@tf.RegisterGradient("HorovodAllreduce")
def _allreduce_gradient(op: Any, gradient: tf.Tensor) -> Gradients:
    return [ops.allreduce(gradient, _call_of(op)), None]


@tf.RegisterGradient("HorovodGroupedAllreduce")
def _grouped_allreduce_gradient(op: Any, *gradients: tf.Tensor) -> Gradients:
    return [*ops.grouped_allreduce(gradients, _call_of(op)), None]


def _own_rows(
    op: Any, tensors: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """The rows of each gathered gradient that this rank contributed."""
    call = _plain_call(op)
    call = dataclasses.replace(call, name=f"{call.name}_rows")
    place = ranks_of(call.process_set_id).index(basics.rank())
    rows = tf.stack([tf.shape(tensor, out_type=tf.int64)[0] for tensor in tensors])
    everybodys = ops.allgather(tf.expand_dims(rows, 0), call)
    # The first rank does not need the others' numbers, and these wait for its own.
    begins = ops.after(tf.reduce_sum(everybodys[:place], axis=0), [everybodys])
    return [gradient[begins[i] : begins[i] + rows[i]] for i, gradient in enumerate(gradients)]


@tf.RegisterGradient("HorovodAllgather")
def _allgather_gradient(op: Any, gradient: tf.Tensor) -> Gradients:
    averaged = ops.allreduce(gradient, _plain_call(op, _AVERAGE))
    return [*_own_rows(op, [op.inputs[0]], [averaged]), None]


@tf.RegisterGradient("HorovodGroupedAllgather")
def _grouped_allgather_gradient(op: Any, *gradients: tf.Tensor) -> Gradients:
    averaged = ops.grouped_allreduce(gradients, _plain_call(op, _AVERAGE))
    return [*_own_rows(op, list(op.inputs[:-1]), averaged), None]


def _of_root(op: Any, averaged: list[tf.Tensor]) -> list[tf.Tensor]:
    if basics.rank() == op.get_attr("root_rank"):
        return averaged
    return [ops.after(tf.zeros_like(gradient), averaged) for gradient in averaged]


@tf.RegisterGradient("HorovodBroadcast")
def _broadcast_gradient(op: Any, gradient: tf.Tensor) -> Gradients:
    return [*_of_root(op, [ops.allreduce(gradient, _plain_call(op, _AVERAGE))]), None]


@tf.RegisterGradient("HorovodGroupedBroadcast")
def _grouped_broadcast_gradient(op: Any, *gradients: tf.Tensor) -> Gradients:
    return [*_of_root(op, ops.grouped_allreduce(gradients, _plain_call(op, _AVERAGE))), None]


@tf.RegisterGradient("HorovodAlltoall")
def _alltoall_gradient(op: Any, gradient: tf.Tensor, _splits: tf.Tensor) -> Gradients:
    received_splits = op.outputs[1]
    returned, _ = ops.alltoall(gradient, received_splits, _plain_call(op))
    missing = tf.shape(op.inputs[0])[0] - tf.shape(returned)[0]  # rows that nobody was sent
    paddings = tf.pad([[0, missing]], [[0, tf.rank(returned) - 1], [0, 0]])
    return [tf.pad(returned, paddings), None, None]


def _scattered(op: Any, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """What each rank's rows of the sum are worth, before they are gathered."""
    call = _call_of(op)
    scale = call.prescale_factor * call.postscale_factor
    if call.reduce_op == _SUM:
        scale *= len(ranks_of(call.process_set_id))
    return [one if scale == 1.0 else one * tf.cast(scale, one.dtype) for one in gradients]


@tf.RegisterGradient("HorovodReducescatter")
def _reducescatter_gradient(op: Any, gradient: tf.Tensor) -> Gradients:
    return [ops.allgather(_scattered(op, [gradient])[0], _plain_call(op)), None]


@tf.RegisterGradient("HorovodGroupedReducescatter")
def _grouped_reducescatter_gradient(op: Any, *gradients: tf.Tensor) -> Gradients:
    return [*ops.grouped_allgather(_scattered(op, gradients), _plain_call(op)), None]


@tf.RegisterGradient("HorovodAfter")
def _after_gradient(op: Any, gradient: tf.Tensor) -> Gradients:
    return [gradient, *(None for _ in op.inputs[1:])]


for _name in (
    "HorovodJoin",
    "HorovodKeep",
    "HorovodLocalRank",
    "HorovodLocalSize",
    "HorovodProcessSetIncluded",
    "HorovodRank",
    "HorovodSize",
):
    tf.no_gradient(_name)
