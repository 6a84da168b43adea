# SPDX-License-Identifier: Apache-2.0
"""The gradients of the collective ops, which are collectives themselves."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from horovod.common.basics import Average, basics, reduce_op
from horovod.tensorflow import ops
from horovod.tensorflow.ops import Call

_AVERAGE = reduce_op(Average)


def _call_of(op: Any) -> Call:
    """What the forward op was called with, under a name of its own."""
    wire_name = op.get_attr("tensor_name").decode()
    return Call(
        name=f"{wire_name}_grad" if wire_name else None,
        ignore_name_scope=op.get_attr("ignore_name_scope"),
        reduce_op=op.get_attr("reduce_op"),
        root_rank=op.get_attr("root_rank"),
        prescale_factor=float(op.get_attr("prescale_factor")),
        postscale_factor=float(op.get_attr("postscale_factor")),
        process_set_id=op.get_attr("process_set_id"),
    )


def _average_call(op: Any) -> Call:
    call = _call_of(op)
    return Call(
        name=call.name,
        ignore_name_scope=call.ignore_name_scope,
        reduce_op=_AVERAGE,
        process_set_id=call.process_set_id,
    )


# Every op has one more input than tensors, "live", which has no gradient.


@tf.RegisterGradient("HorovodAllreduce")
def _allreduce_gradient(op: Any, gradient: tf.Tensor) -> list[tf.Tensor | None]:
    return [ops.allreduce(gradient, _call_of(op)), None]


@tf.RegisterGradient("HorovodGroupedAllreduce")
def _grouped_allreduce_gradient(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor | None]:
    return [*ops.grouped_allreduce(gradients, _call_of(op)), None]


def _own_rows(op: Any, tensors: list[tf.Tensor], gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    """The rows of each gathered gradient that this rank contributed."""
    call = _call_of(op)
    name = f"{call.name}_rows" if call.name else None
    rows = tf.stack([tf.shape(tensor, out_type=tf.int64)[0] for tensor in tensors])
    everybodys = ops.allgather(tf.expand_dims(rows, 0), Call(name=name))
    with tf.control_dependencies([everybodys]):  # rank 0 would not need it
        begins = tf.reduce_sum(everybodys[: basics.rank()], axis=0)
        return [gradient[begins[i] : begins[i] + rows[i]] for i, gradient in enumerate(gradients)]


@tf.RegisterGradient("HorovodAllgather")
def _allgather_gradient(op: Any, gradient: tf.Tensor) -> list[tf.Tensor | None]:
    averaged = ops.allreduce(gradient, _average_call(op))
    return [*_own_rows(op, [op.inputs[0]], [averaged]), None]


@tf.RegisterGradient("HorovodGroupedAllgather")
def _grouped_allgather_gradient(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor | None]:
    averaged = ops.grouped_allreduce(gradients, _average_call(op))
    return [*_own_rows(op, list(op.inputs[:-1]), averaged), None]


def _of_root(op: Any, averaged: list[tf.Tensor]) -> list[tf.Tensor]:
    if basics.rank() == op.get_attr("root_rank"):
        return averaged
    with tf.control_dependencies(averaged):  # the root needs this rank to take part
        return [tf.zeros_like(gradient) for gradient in averaged]


@tf.RegisterGradient("HorovodBroadcast")
def _broadcast_gradient(op: Any, gradient: tf.Tensor) -> list[tf.Tensor | None]:
    return [*_of_root(op, [ops.allreduce(gradient, _average_call(op))]), None]


@tf.RegisterGradient("HorovodGroupedBroadcast")
def _grouped_broadcast_gradient(op: Any, *gradients: tf.Tensor) -> list[tf.Tensor | None]:
    return [*_of_root(op, ops.grouped_allreduce(gradients, _average_call(op))), None]
