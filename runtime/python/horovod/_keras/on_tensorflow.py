# SPDX-License-Identifier: Apache-2.0
"""Collectives for a Keras that computes with TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import horovod.tensorflow  # noqa: F401  (first: it says what is missing)

# isort: split
import tensorflow as tf

from horovod.common.basics import Min, reduce_op
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.reduction import ReducerSettings
from horovod.tensorflow import collectives, functions, mpi_ops, ops
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.elastic import TensorFlowKerasState
from horovod.tensorflow.functions import allgather_object, broadcast_object
from horovod.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from horovod.tensorflow.gradient_reducer import GradientReducer
from horovod.tensorflow.util import as_it_is, key_of, on_device

__all__ = [
    "Compression",
    "KerasState",
    "allgather_object",
    "as_it_is",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "key_of",
    "on_device",
]

_AND = reduce_op(Min)  # of booleans
KerasState = TensorFlowKerasState


def make_reducer(settings: ReducerSettings) -> GradientReducer:
    return GradientReducer(settings)


def make_aggregation(reducer: GradientReducer, passes: int, average: bool) -> Any:
    """What sums the gradients of several passes."""
    settings = reducer.settings
    return LocalGradientAggregationHelperEager(
        passes,
        reducer.reduce,
        settings.sparse_as_dense,
        average,
        process_set=settings.process_set,
        scale_local_gradients=settings.scale_local_gradients,
    )


def on_every_rank(own: Any, reducer: GradientReducer) -> Any:
    """True where `own` is true on all ranks that reduce together."""
    if reducer.settings.size == 1:
        return own
    call = ops.Call(
        wire_name=f"{reducer.name}_finite",
        reduce_op=_AND,
        process_set_id=reducer.settings.process_set.process_set_id or 0,
    )
    return ops.allreduce(tf.cast(own, tf.bool), call)


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes the state of a Keras 3 optimizer outside of the graph that is being built."""
    if not optimizer.built:
        with tf.name_scope(optimizer.name), tf.init_scope():
            optimizer.build(variables)
        optimizer.built = True


def gradients_of(loss: Any, variables: Any, grad_loss: Any, tape: Any) -> tuple[list[Any], Any]:
    """This rank's gradients of a loss, or of a function that computes it, and their variables."""
    if callable(loss):
        tape = tape or tf.GradientTape()
        with tape:
            loss = loss()
    elif tape is None:
        raise ValueError("_compute_gradients needs the tape that the loss was computed under")
    own = list(variables() if callable(variables) else variables)
    sources = [
        one.value if hasattr(one, "value") and not callable(one.value) else one for one in own
    ]
    return list(tape.gradient(loss, sources, grad_loss)), own


def _evaluated(result: Any) -> Any:
    """In a graph of TensorFlow 1, what the session of Keras computes for it: callbacks and scripts
    want values there too. Keras 3 has no session, and the program's own is taken."""
    v1 = tf.compat.v1
    if v1.executing_eagerly_outside_functions():
        return result
    session = getattr(v1.keras.backend, "get_session", v1.get_default_session)()
    if session is None:
        raise RuntimeError(
            "in a graph of TensorFlow 1 Keras 3 has no session: call this function inside of "
            "`with tf.compat.v1.Session():`"
        )
    return session.run(result)


def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives all variables the values they have on the root. `inplace` makes no difference: the
    variables themselves change."""
    return _evaluated(functions.broadcast_variables(variables, root_rank, process_set, inplace))


def broadcast_on(device: str, variables: Sequence[Any], root_rank: int) -> None:
    """broadcast_variables by operations of this device."""
    with on_device(device):
        broadcast_variables(variables, root_rank)


def broadcast_global_variables(root_rank: int) -> Any:
    """Broadcasts all global variables of a TensorFlow 1 graph."""
    return _evaluated(functions.broadcast_global_variables(root_rank))


def allreduce(value: Any, **arguments: Any) -> Any:
    return _evaluated(collectives.allreduce(tf.convert_to_tensor(value), **arguments))


def allgather(value: Any, name: str | None) -> Any:
    return _evaluated(mpi_ops.allgather(tf.convert_to_tensor(value), name=name))


def broadcast(value: Any, root_rank: int, name: str | None) -> Any:
    return _evaluated(mpi_ops.broadcast(tf.convert_to_tensor(value), root_rank, name=name))


def reducescatter(value: Any, name: str | None, op: int) -> Any:
    return _evaluated(collectives.reducescatter(tf.convert_to_tensor(value), name=name, op=op))
