# SPDX-License-Identifier: Apache-2.0
"""Values that every rank starts with or collects: variables and Python objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common import objects
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.tensorflow.mpi_ops import broadcast_
from horovod.tensorflow.util import as_it_is, native_variable


@as_it_is
def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives all variables, of TensorFlow or Keras, the values they have on the root.

    In a graph it returns the op that does so. `inplace` makes no difference: the variables
    themselves change.
    """
    own = list(variables)
    if tf.executing_eagerly():
        _check_like_root(own, root_rank, process_set)
    done = broadcast_(own, root_rank, process_set=process_set)
    return None if tf.executing_eagerly() else tf.group(*done)


def _check_like_root(variables: Sequence[Any], root_rank: int, process_set: ProcessSet) -> None:
    """Raises on all ranks where one has other variables than the root: what only some ranks submit
    would wait for ever."""
    members = process_set.ranks
    if members is None or len(members) == 1:
        return
    chosen = process_set_id(process_set)
    native = [native_variable(one) for one in variables]
    own = [f"{one.dtype.name} of shape {one.shape}" for one in native]
    roots = objects.broadcast_object(own, root_rank, "broadcast_variables", chosen)
    differences = objects.allgather_object(_difference(own, roots), "broadcast_variables", chosen)
    for rank, difference in zip(members, differences, strict=True):
        if difference is not None:
            raise ValueError(
                f"broadcast_variables: rank {rank} has other variables than rank {root_rank}, the "
                f"root: {difference}. Make or load the same model and optimizer on every rank "
                f"before"
            )


def _difference(own: list[str], roots: list[str]) -> str | None:
    if len(own) != len(roots):
        return f"{len(own)} instead of {len(roots)}"
    places = (place for place, one in enumerate(own) if one != roots[place])
    first = next(places, None)
    return None if first is None else f"number {first} is {own[first]} instead of {roots[first]}"


@as_it_is
def broadcast_global_variables(root_rank: int) -> tf.Operation:
    """The op that broadcasts all global variables of a TensorFlow 1 graph."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() does not support eager execution: call "
            "hvd.broadcast_variables(<model/optimizer variables>, root_rank) instead"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts all global variables once a TensorFlow 1 session has been made."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._op: tf.Operation | None = None

    def begin(self) -> None:
        if self._op is None or self._op.graph is not tf.compat.v1.get_default_graph():
            with tf.device(self.device):
                self._op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        session.run(self._op)


def _check_session(session: Any) -> None:
    """In a graph the original runs its operations in the session. Here objects travel without one,
    but a session that is closed, or is none, is an error there as well."""
    is_graph = session is not None and not tf.executing_eagerly()
    if is_graph and session.graph.version > 0:  # TensorFlow runs nothing in an empty graph
        session.run([])


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The root's Python object, on every rank of the set. A graph may pass its session."""
    _check_session(session)
    return objects.broadcast_object(obj, root_rank, name, process_set_id(process_set))


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """broadcast_object as a function of the object alone."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """The objects of all ranks of the set, by rank, on each of them. A graph may pass its
    session."""
    _check_session(session)
    return objects.allgather_object(obj, name, process_set_id(process_set))
