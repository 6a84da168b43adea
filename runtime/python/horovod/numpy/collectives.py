# SPDX-License-Identifier: Apache-2.0
"""The operations on arrays, blocking and asynchronous.

An asynchronous form returns a handle for `poll` and `synchronize`; a trailing underscore means that
the result replaces the input. Results are arrays of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from horovod.common import objects, operations
from horovod.common.basics import Adasum, Average, reduce_op
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.numpy.submission import Place, Settings, run, start


def _reduction(
    label: str, name: str | None, place: Place, op: int, scales: tuple[float, float], of: ProcessSet
) -> Settings:
    return Settings(
        label,
        name,
        operations.ALLREDUCE,
        place,
        reduce_op=reduce_op(op),
        prescale=scales[0],
        postscale=scales[1],
        process_set=of,
    )


def allreduce_async(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Combines the arrays of all ranks with `op`."""
    settings = _reduction(
        "allreduce", name, Place.beside, op, (prescale_factor, postscale_factor), process_set
    )
    return start(settings, [tensor])


def allreduce(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """As `allreduce_async`, and waits."""
    settings = _reduction(
        "allreduce", name, Place.beside, op, (prescale_factor, postscale_factor), process_set
    )
    return run(settings, [tensor])


def allreduce_async_(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `allreduce_async`; the result replaces the array."""
    settings = _reduction(
        "allreduce", name, Place.in_place, op, (prescale_factor, postscale_factor), process_set
    )
    return start(settings, [tensor])


def allreduce_(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """As `allreduce_async_`, and waits."""
    settings = _reduction(
        "allreduce", name, Place.in_place, op, (prescale_factor, postscale_factor), process_set
    )
    return run(settings, [tensor])


def grouped_allreduce_async(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `allreduce_async` for arrays that complete as a unit."""
    settings = _reduction(
        "grouped_allreduce",
        name,
        Place.beside,
        op,
        (prescale_factor, postscale_factor),
        process_set,
    )
    return start(settings, list(tensors), is_group=True)


def grouped_allreduce(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """As `grouped_allreduce_async`, and waits."""
    settings = _reduction(
        "grouped_allreduce",
        name,
        Place.beside,
        op,
        (prescale_factor, postscale_factor),
        process_set,
    )
    return run(settings, list(tensors), is_group=True)


def grouped_allreduce_async_(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `grouped_allreduce_async`; the results replace the arrays."""
    settings = _reduction(
        "grouped_allreduce",
        name,
        Place.in_place,
        op,
        (prescale_factor, postscale_factor),
        process_set,
    )
    return start(settings, list(tensors), is_group=True)


def grouped_allreduce_(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """As `grouped_allreduce_async_`, and waits."""
    settings = _reduction(
        "grouped_allreduce",
        name,
        Place.in_place,
        op,
        (prescale_factor, postscale_factor),
        process_set,
    )
    return run(settings, list(tensors), is_group=True)


def allgather_async(
    tensor: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Joins the arrays of all ranks along the first dimension, which may differ between them."""
    settings = Settings(
        "allgather", name, operations.ALLGATHER, Place.allocated, process_set=process_set
    )
    return start(settings, [tensor])


def allgather(
    tensor: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """As `allgather_async`, and waits."""
    settings = Settings(
        "allgather", name, operations.ALLGATHER, Place.allocated, process_set=process_set
    )
    return run(settings, [tensor])


def grouped_allgather_async(
    tensors: Sequence[Any],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `allgather_async` for arrays that complete as a unit."""
    settings = Settings(
        "grouped_allgather", name, operations.ALLGATHER, Place.allocated, process_set=process_set
    )
    return start(settings, list(tensors), is_group=True)


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """As `grouped_allgather_async`, and waits."""
    settings = Settings(
        "grouped_allgather", name, operations.ALLGATHER, Place.allocated, process_set=process_set
    )
    return run(settings, list(tensors), is_group=True)


def _broadcast(name: str | None, place: Place, root_rank: int, of: ProcessSet) -> Settings:
    return Settings("broadcast", name, operations.BROADCAST, place, root=root_rank, process_set=of)


def broadcast_async(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Gives every rank a copy of the root's array. `root_rank` is a rank of the world, also in a
    process set."""
    settings = _broadcast(name, Place.beside, root_rank, process_set)
    return start(settings, [tensor])


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """As `broadcast_async`, and waits."""
    settings = _broadcast(name, Place.beside, root_rank, process_set)
    return run(settings, [tensor])


def broadcast_async_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `broadcast_async`; the result replaces the array."""
    settings = _broadcast(name, Place.in_place, root_rank, process_set)
    return start(settings, [tensor])


def broadcast_(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """As `broadcast_async_`, and waits."""
    settings = _broadcast(name, Place.in_place, root_rank, process_set)
    return run(settings, [tensor])


def _alltoall(splits: Any, name: str | None, process_set: ProcessSet) -> Settings:
    return Settings(
        "alltoall",
        name,
        operations.ALLTOALL,
        Place.allocated,
        process_set=process_set,
        splits=None if splits is None else _as_integers(splits),
    )


def _as_integers(splits: Any) -> tuple[int, ...]:
    array = np.asarray(splits)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"alltoall: splits has {array.ndim} dimensions and dtype {array.dtype}; use one "
            f"dimension of integers, a number of rows for each rank"
        )
    return tuple(array.tolist())


def alltoall_async(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Sends rows of the array to every rank, as many as `splits` says for each, or equal shares;
    the result has the rows from all ranks, in rank order. With `splits` it is a tuple of them and
    of the numbers of rows that came from each rank."""
    settings = _alltoall(splits, name, process_set)
    return start(settings, [tensor])


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """As `alltoall_async`, and waits."""
    settings = _alltoall(splits, name, process_set)
    return run(settings, [tensor])


def _scatter(
    label: str, name: str | None, op: int, scales: tuple[float, float], of: ProcessSet
) -> Settings:
    if op == Adasum:
        raise RuntimeError("reducescatter: hvd.Adasum is an op of allreduce only")
    settings = _reduction(label, name, Place.share, op, scales, of)
    settings.op = operations.REDUCESCATTER
    return settings


def reducescatter_async(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Combines the arrays of all ranks with `op` and gives each rank its share of the rows: the
    first ranks get one more where they do not come out even."""
    settings = _scatter("reducescatter", name, op, (prescale_factor, postscale_factor), process_set)
    return start(settings, [tensor])


def reducescatter(
    tensor: Any,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """As `reducescatter_async`, and waits."""
    settings = _scatter("reducescatter", name, op, (prescale_factor, postscale_factor), process_set)
    return run(settings, [tensor])


def grouped_reducescatter_async(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """As `reducescatter_async` for arrays that complete as a unit."""
    settings = _scatter(
        "grouped_reducescatter", name, op, (prescale_factor, postscale_factor), process_set
    )
    return start(settings, list(tensors), is_group=True)


def grouped_reducescatter(
    tensors: Sequence[Any],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Any]:
    """As `grouped_reducescatter_async`, and waits."""
    settings = _scatter(
        "grouped_reducescatter", name, op, (prescale_factor, postscale_factor), process_set
    )
    return run(settings, list(tensors), is_group=True)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The root's object, pickled, on every rank. `obj` is read on the root only."""
    return objects.broadcast_object(obj, root_rank, name, process_set_id(process_set))


def allgather_object(
    obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """The objects of all ranks, pickled, in rank order."""
    return objects.allgather_object(obj, name, process_set_id(process_set))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    operations.barrier(process_set=process_set_id(process_set))


def join() -> int:
    """For a rank that has no more batches: takes part in the allreduces of the others with zeros
    (or what changes nothing of their op) until all ranks have joined. Returns the rank that joined
    last."""
    return operations.join()
