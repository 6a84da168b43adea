# SPDX-License-Identifier: Apache-2.0
"""The operations on torch tensors, blocking and asynchronous.

An asynchronous form returns a handle for `poll` and `synchronize`; a trailing underscore means that
the result replaces the input. Blocking forms that return a new tensor can be differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from horovod.common import operations, util
from horovod.common import process_sets as sets
from horovod.common.basics import basics, reduce_op
from horovod.common.exceptions import HorovodInternalError
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.world import *  # noqa: F403
from horovod.torch.compression import Compression, Compressor
from horovod.torch.gradients import Wanted
from horovod.torch.row_exchange import (
    alltoall,
    alltoall_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from horovod.torch.sparse import sparse_allreduce_async
from horovod.torch.submission import Place, Settings, group, one, poll, run, start, synchronize

_basics = basics


handle_average_backwards_compatibility = util.get_average_backwards_compatibility_fun(_basics)

__all__ = [
    "HorovodInternalError",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]


def _reduction(
    place: Place, op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> Settings:
    return Settings(
        op=operations.ALLREDUCE,
        place=place,
        reduce_op=reduce_op(op),
        prescale=prescale,
        postscale=postscale,
        process_set=process_set,
    )


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Combines the tensors of all ranks with `op` (hvd.Average where nothing is said)."""
    op = handle_average_backwards_compatibility(op, average)
    settings = _reduction(Place.beside, op, prescale_factor, postscale_factor, process_set)
    return start(one("allreduce", name, tensor), settings)


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """As `allreduce_async`, and waits. The gradient is an allreduce with the same arguments."""
    op = handle_average_backwards_compatibility(op, average)
    compressed, ctx = compression.compress(tensor)
    settings = _reduction(Place.beside, op, prescale_factor, postscale_factor, process_set)
    (reduced,) = Wanted("allreduce", name, settings, is_group=False).run([compressed])
    return compression.decompress(reduced, ctx)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `allreduce_async`; the result replaces the tensor."""
    op = handle_average_backwards_compatibility(op, average)
    settings = _reduction(Place.in_place, op, prescale_factor, postscale_factor, process_set)
    return start(one("allreduce", name, tensor), settings)


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """As `allreduce_async_`, and waits."""
    op = handle_average_backwards_compatibility(op, average)
    settings = _reduction(Place.in_place, op, prescale_factor, postscale_factor, process_set)
    return run(one("allreduce", name, tensor), settings)[0]


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `allreduce_async` for tensors that complete as a unit."""
    op = handle_average_backwards_compatibility(op, average)
    settings = _reduction(Place.beside, op, prescale_factor, postscale_factor, process_set)
    return start(group("grouped_allreduce", name, tensors), settings)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """As `grouped_allreduce_async`, and waits."""
    op = handle_average_backwards_compatibility(op, average)
    compressed = [compression.compress(tensor) for tensor in tensors]
    settings = _reduction(Place.beside, op, prescale_factor, postscale_factor, process_set)
    wanted = Wanted("grouped_allreduce", name, settings, is_group=True)
    reduced = wanted.run([one for one, _ in compressed])
    return [
        compression.decompress(one, ctx) for one, (_, ctx) in zip(reduced, compressed, strict=True)
    ]


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `grouped_allreduce_async`; the results replace the tensors."""
    op = handle_average_backwards_compatibility(op, average)
    settings = _reduction(Place.in_place, op, prescale_factor, postscale_factor, process_set)
    return start(group("grouped_allreduce", name, tensors), settings)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """As `grouped_allreduce_async_`, and waits."""
    op = handle_average_backwards_compatibility(op, average)
    settings = _reduction(Place.in_place, op, prescale_factor, postscale_factor, process_set)
    return run(group("grouped_allreduce", name, tensors), settings)


def _allgather(process_set: ProcessSet) -> Settings:
    return Settings(op=operations.ALLGATHER, place=Place.allocated, process_set=process_set)


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Joins the tensors of all ranks along the first dimension, which may differ between them."""
    return start(one("allgather", name, tensor), _allgather(process_set))


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """As `allgather_async`, and waits. The gradient is this rank's rows of the averaged one."""
    wanted = Wanted("allgather", name, _allgather(process_set), is_group=False)
    return wanted.run([tensor])[0]


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `allgather_async` for tensors that complete as a unit."""
    return start(group("grouped_allgather", name, tensors), _allgather(process_set))


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """As `grouped_allgather_async`, and waits."""
    wanted = Wanted("grouped_allgather", name, _allgather(process_set), is_group=True)
    return list(wanted.run(tensors))


def _broadcast(place: Place, root_rank: int, process_set: ProcessSet) -> Settings:
    return Settings(op=operations.BROADCAST, place=place, root=root_rank, process_set=process_set)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Gives every rank a copy of the root's tensor. `root_rank` is a rank of the world, also in a
    process set."""
    settings = _broadcast(Place.beside, root_rank, process_set)
    return start(one("broadcast", name, tensor), settings)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """As `broadcast_async`, and waits."""
    settings = _broadcast(Place.beside, root_rank, process_set)
    (received,) = Wanted("broadcast", name, settings, is_group=False).run([tensor])
    return received


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """As `broadcast_async`; the result replaces the tensor."""
    settings = _broadcast(Place.in_place, root_rank, process_set)
    return start(one("broadcast", name, tensor), settings)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """As `broadcast_async_`, and waits."""
    settings = _broadcast(Place.in_place, root_rank, process_set)
    return run(one("broadcast", name, tensor), settings)[0]


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    operations.barrier(process_set=sets.process_set_id(process_set))


def join(device: int = -1) -> int:
    """For a rank that has no more batches: takes part in the allreduces of the others with zeros
    (or what changes nothing of their op) until all ranks have joined. Returns the rank that joined
    last. `device` is the GPU whose operations it joins, or -1 for the CPU; where PyTorch sees no
    GPU, all operations are the CPU's, and every number is taken, such as `hvd.local_rank()`."""
    _check_device(device)
    return operations.join(device if torch.cuda.is_available() else -1)


def _check_device(device: int) -> None:
    if not isinstance(device, int) or isinstance(device, bool):
        raise TypeError(f"join: device is {device!r}; use the number of a GPU, or -1 for the CPU")
    gpus = torch.cuda.device_count()
    if device < -1 or 0 < gpus <= device:
        raise ValueError(
            f"join: device is {device}, but PyTorch sees {gpus} GPUs; use -1 for the CPU"
        )
