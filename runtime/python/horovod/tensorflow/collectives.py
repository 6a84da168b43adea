# SPDX-License-Identifier: Apache-2.0
"""allreduce and reducescatter as programs call them: averaging, compression, sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow import mpi_ops
from horovod.tensorflow.compression import Compression, Compressor
from horovod.tensorflow.mpi_ops import handle_average_backwards_compatibility
from horovod.tensorflow.util import as_it_is, on_device


@as_it_is
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> tf.Tensor | tf.IndexedSlices:
    """The tensor reduced over the ranks: averaged unless `op` says otherwise.

    An IndexedSlices stays one: its values and indices are gathered. `device_dense` and
    `device_sparse` name the devices of the operations.
    """
    op = handle_average_backwards_compatibility(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        with on_device(device_sparse):
            scale = prescale_factor * postscale_factor
            wire = Wire(name, process_set, compression, ignore_name_scope)
            return allreduce_slices([tensor], op, scale, wire)[0]
    with on_device(device_dense):
        compressed, ctx = compression.compress(tf.convert_to_tensor(tensor))
        reduced = mpi_ops._allreduce(
            compressed,
            name=name,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            ignore_name_scope=ignore_name_scope,
            process_set=process_set,
        )
        return compression.decompress(reduced, ctx)


@as_it_is
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[tf.Tensor | tf.IndexedSlices]:
    """As allreduce for several tensors that travel and complete as a unit. They may differ in
    shape and data type; those that are IndexedSlices make a unit of their own."""
    op = handle_average_backwards_compatibility(op, average)
    if not tensors:
        return []
    results: list[Any] = [None] * len(tensors)
    sparse = [i for i, one in enumerate(tensors) if isinstance(one, tf.IndexedSlices)]
    dense = [i for i in range(len(tensors)) if i not in set(sparse)]
    if sparse:
        require_op_of_slices(op)
    with on_device(device_dense):
        packed = [compression.compress(tf.convert_to_tensor(tensors[i])) for i in dense]
        reduced = mpi_ops._grouped_allreduce(
            [tensor for tensor, _ in packed],
            name=name,
            op=op,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            ignore_name_scope=ignore_name_scope,
            process_set=process_set,
        )
        for i, tensor, (_, ctx) in zip(dense, reduced, packed, strict=True):
            results[i] = compression.decompress(tensor, ctx)
    with on_device(device_sparse):
        gathered = allreduce_slices(
            [tensors[i] for i in sparse],
            op,
            prescale_factor * postscale_factor,
            Wire(name and f"{name}_sparse", process_set, compression, ignore_name_scope),
        )
    for i, slices in zip(sparse, gathered, strict=True):
        results[i] = slices
    return results


@as_it_is
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """This rank's rows of the tensor reduced over the ranks. Where the rows do not come out even,
    the first ranks have one more."""
    with on_device(device_dense):
        compressed, ctx = compression.compress(tf.convert_to_tensor(tensor))
        reduced = mpi_ops._reducescatter(
            compressed,
            name=name,
            op=op,
            ignore_name_scope=ignore_name_scope,
            process_set=process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
        return compression.decompress(reduced, ctx)


@as_it_is
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    """As reducescatter for several tensors that travel and complete as a unit."""
    with on_device(device_dense):
        packed = [compression.compress(tf.convert_to_tensor(one)) for one in tensors]
        reduced = mpi_ops._grouped_reducescatter(
            [tensor for tensor, _ in packed],
            op=op,
            process_set=process_set,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
        )
        return [
            compression.decompress(tensor, ctx)
            for tensor, (_, ctx) in zip(reduced, packed, strict=True)
        ]


@dataclass(frozen=True)
class Wire:
    """How rows travel, and among whom."""

    name: str | None
    process_set: ProcessSet
    compression: type[Compressor]
    ignore_name_scope: bool = False


def require_op_of_slices(op: int) -> None:
    """Raises NotImplementedError for an op that rows of several ranks do not allow."""
    if op not in (Average, Sum):
        raise NotImplementedError(
            "IndexedSlices can be averaged or summed only: convert the tensor with "
            "tf.convert_to_tensor, or pass sparse_as_dense=True, for another op"
        )


def allreduce_slices(
    tensors: Sequence[tf.IndexedSlices],
    op: int,
    scale: float,
    wire: Wire,
) -> list[tf.IndexedSlices]:
    """The rows of all ranks. A row that several ranks have stays several rows, as IndexedSlices
    allow: what they say is the sum."""
    if not tensors:
        return []
    require_op_of_slices(op)
    packed = [wire.compression.compress(one.values) for one in tensors]
    gathered = mpi_ops.grouped_allgather(
        [
            part
            for (values, _), one in zip(packed, tensors, strict=True)
            for part in (values, one.indices)
        ],
        name=wire.name,
        ignore_name_scope=wire.ignore_name_scope,
        process_set=wire.process_set,
    )
    values = [
        wire.compression.decompress(one, ctx)
        for one, (_, ctx) in zip(gathered[::2], packed, strict=True)
    ]
    divisor = (wire.process_set.size() or 1) if op == Average else 1
    return [
        tf.IndexedSlices(_scaled(values[i], scale, divisor), gathered[2 * i + 1], one.dense_shape)
        for i, one in enumerate(tensors)
    ]


def _scaled(values: tf.Tensor, scale: float, divisor: int) -> tf.Tensor:
    if scale != 1.0:
        values = values * tf.cast(scale, values.dtype)
    return values if divisor == 1 else values / tf.cast(divisor, values.dtype)
