# SPDX-License-Identifier: Apache-2.0
"""The ops of libhorovod_tf.so: loading them, and calling them from eager code and from graphs."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from horovod.common.basics import Sum, reduce_op
from horovod.common.crash_report import recognise_peer_lost
from horovod.common.library import companion

FILE_NAME = "libhorovod_tf.so"


def _load() -> Any:
    path = str(companion(FILE_NAME))
    module = tf.load_op_library(path)
    load_error = ctypes.CDLL(path).hvd_tf_load_error
    load_error.restype = ctypes.c_char_p
    message: bytes = load_error()
    if message:
        raise ImportError(message.decode())
    return module


def _is_peer_lost(error: BaseException) -> bool:
    return isinstance(error, tf.errors.AbortedError) and "Horovod: " in str(error)


lib = _load()
recognise_peer_lost(_is_peer_lost)


@dataclass(frozen=True)
class Call:
    """What a collective needs to know beside its tensors. `reduce_op` is the library's number.

    `wire_name`, where given, is the name on every rank as it is; otherwise eager calls go by `name`
    and graphs by the name of their node, which is unique in what runs together.
    """

    name: str | None = None
    wire_name: str = ""
    ignore_name_scope: bool = False
    reduce_op: int = reduce_op(Sum)
    root_rank: int = 0
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0
    process_set_id: int = 0


_node_ids = itertools.count(1)
_LIVE = "horovod_live"
_eager_live: list[tf.Tensor] = []


def _live() -> tf.Tensor:
    """The input that keeps a collective from being run while a graph is optimised: a value that is
    known to the running step only, one for each graph. Eager code has nothing to optimise."""
    if tf.executing_eagerly():
        if not _eager_live:
            with tf.device("/CPU:0"):
                _eager_live.append(tf.constant(0))
        return _eager_live[0]
    known = tf.compat.v1.get_default_graph().get_collection_ref(_LIVE)
    if not known:
        with tf.control_dependencies(None), tf.name_scope(""):
            known.append(lib.horovod_rank(name="horovod_live"))
    return known[0]


def _keep(outputs: Sequence[tf.Tensor]) -> None:
    """Makes a collective run on this rank even where nobody here uses its results: other ranks may,
    and wait for it. A tf.function runs all its stateful ops, such as the one that takes a result
    here."""
    if tf.inside_function():
        lib.horovod_keep(outputs[0])


def _node_name(text: str) -> str:
    """A valid node name, the way the original makes it."""
    return re.sub("[^a-zA-Z0-9_]", "_", text)


# TensorFlow names a tensor of eager code that a function closes over by the number of what this
# process has made so far, which differs between ranks.
_CLOSED_OVER = re.compile(r"(.*/)?\d+(_\d+)?")


def _default_node_name(kind: str, tensors: Sequence[tf.Tensor]) -> str:
    """As in the original: with the tensor's name, where all ranks have the same."""
    if not tensors or _CLOSED_OVER.fullmatch(tensors[0].op.name):
        return kind
    return f"{kind}_{tensors[0].name}"


def _attributes(call: Call, default_name: str, tensors: Sequence[tf.Tensor]) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "tensor_name": call.wire_name,
        "ignore_name_scope": call.ignore_name_scope,
        "reduce_op": call.reduce_op,
        "root_rank": call.root_rank,
        "prescale_factor": repr(float(call.prescale_factor)),
        "postscale_factor": repr(float(call.postscale_factor)),
        "process_set_id": call.process_set_id,
    }
    if tf.executing_eagerly():
        attributes["tensor_name"] = call.wire_name or call.name or default_name
    else:
        attributes["name"] = _node_name(call.name or _default_node_name(default_name, tensors))
        attributes["node_id"] = next(_node_ids)
    return attributes


def _single(op: Callable[..., tf.Tensor], kind: str) -> Callable[[tf.Tensor, Call], tf.Tensor]:
    def run(tensor: tf.Tensor, call: Call) -> tf.Tensor:
        output = op(tensor, _live(), **_attributes(call, kind, [tensor]))
        _keep([output])
        return output

    return run


def _grouped(
    op: Callable[..., list[tf.Tensor]], kind: str
) -> Callable[[Sequence[tf.Tensor], Call], list[tf.Tensor]]:
    def run(tensors: Sequence[tf.Tensor], call: Call) -> list[tf.Tensor]:
        if not tensors:
            return []
        outputs = list(op(list(tensors), _live(), **_attributes(call, kind, tensors)))
        _keep(outputs)
        return outputs

    return run


# One tensor, or a group that travels and completes as a unit and may mix data types.
allreduce = _single(lib.horovod_allreduce, "HorovodAllreduce")
allgather = _single(lib.horovod_allgather, "HorovodAllgather")
broadcast = _single(lib.horovod_broadcast, "HorovodBroadcast")
reducescatter = _single(lib.horovod_reducescatter, "HorovodReducescatter")
grouped_allreduce = _grouped(lib.horovod_grouped_allreduce, "HorovodGroupedAllreduce")
grouped_allgather = _grouped(lib.horovod_grouped_allgather, "HorovodGroupedAllgather")
grouped_broadcast = _grouped(lib.horovod_grouped_broadcast, "HorovodGroupedBroadcast")
grouped_reducescatter = _grouped(lib.horovod_grouped_reducescatter, "HorovodGroupedReducescatter")


def alltoall(tensor: tf.Tensor, splits: tf.Tensor, call: Call) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows for this rank, and how many came from each. No splits: equal shares."""
    attributes = _attributes(call, "HorovodAlltoall", [tensor])
    output, received = lib.horovod_alltoall(tensor, splits, _live(), **attributes)
    _keep([output])
    return output, received


def join(call: Call) -> tf.Tensor:
    """The rank that joined last. What the same function does afterwards waits for it. In the graph
    of a session nothing does: each run takes what it needs, and would join again."""
    last = lib.horovod_join(_live(), **_attributes(call, "HorovodJoin", []))
    if tf.inside_function():
        tf.compat.v1.get_default_graph().get_collection_ref(_LIVE)[:] = [last]
    return last


def after(value: tf.Tensor, results: Sequence[tf.Tensor]) -> tf.Tensor:
    """The value, in a way that makes collectives run whose results this rank does not need, but
    whose peers wait. A control dependency is not enough: Grappler drops what only such an edge
    needs."""
    return lib.horovod_after(value, list(results))
