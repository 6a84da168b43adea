# SPDX-License-Identifier: Apache-2.0
"""The operations that give each rank rows of its own: alltoall and reducescatter."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from horovod.common import operations
from horovod.common.basics import Adasum, Average, reduce_op
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch.compression import Compression, Compressor
from horovod.torch.gradients import Wanted
from horovod.torch.submission import Place, Settings, group, one, start


def _alltoall(splits: torch.Tensor | Sequence[int] | None, process_set: ProcessSet) -> Settings:
    rows = None if splits is None else _as_integers(splits)
    return Settings(
        op=operations.ALLTOALL,
        place=Place.allocated,
        process_set=process_set,
        splits=rows,
        returns_splits=rows is not None,
    )


def _as_integers(splits: torch.Tensor | Sequence[int]) -> tuple[int, ...]:
    tensor = torch.as_tensor(splits)
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if tensor.dim() != 1 or not is_integer or tensor.dtype == torch.bool:
        raise ValueError(
            f"alltoall: splits has {tensor.dim()} dimensions and dtype {tensor.dtype}; use one "
            f"dimension of integers, a number of rows for each rank"
        )
    return tuple(tensor.tolist())


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Sends rows of the tensor to every rank, as many as `splits` says for each, or equal shares;
    the result has the rows from all ranks, in rank order. With `splits` it is a tuple of them and
    of the numbers of rows that came from each rank."""
    settings = _alltoall(splits, process_set)
    return start(one("alltoall", name, tensor), settings)


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """As `alltoall_async`, and waits. The gradient goes back by an alltoall."""
    settings = _alltoall(splits, process_set)
    outputs = Wanted("alltoall", name, settings, is_group=False).run([tensor])
    return outputs[0] if splits is None else (outputs[0], outputs[1])


def _scatter(op: int, prescale: float, postscale: float, process_set: ProcessSet) -> Settings:
    if op == Adasum:
        raise RuntimeError("reducescatter: hvd.Adasum is an op of allreduce only")
    return Settings(
        op=operations.REDUCESCATTER,
        place=Place.share,
        reduce_op=reduce_op(op),
        prescale=prescale,
        postscale=postscale,
        process_set=process_set,
    )


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Combines the tensors of all ranks with `op` and gives each rank its share of the rows: the
    first ranks get one more where they do not come out even."""
    settings = _scatter(op, prescale_factor, postscale_factor, process_set)
    return start(one("reducescatter", name, tensor), settings)


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """As `reducescatter_async`, and waits. The gradient goes back by an allgather."""
    compressed, ctx = compression.compress(tensor)
    settings = _scatter(op, prescale_factor, postscale_factor, process_set)
    (share,) = Wanted("reducescatter", name, settings, is_group=False).run([compressed])
    return compression.decompress(share, ctx)


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """As `reducescatter_async` for tensors that complete as a unit."""
    settings = _scatter(op, prescale_factor, postscale_factor, process_set)
    return start(group("grouped_reducescatter", name, tensors), settings)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """As `grouped_reducescatter_async`, and waits."""
    compressed = [compression.compress(tensor) for tensor in tensors]
    settings = _scatter(op, prescale_factor, postscale_factor, process_set)
    wanted = Wanted("grouped_reducescatter", name, settings, is_group=True)
    shares = wanted.run([one for one, _ in compressed])
    return [
        compression.decompress(share, ctx)
        for share, (_, ctx) in zip(shares, compressed, strict=True)
    ]
