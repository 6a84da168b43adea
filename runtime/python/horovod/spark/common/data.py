# SPDX-License-Identifier: Apache-2.0
"""Rows of a DataFrame as Parquet files in a store, and as arrays in the ranks of a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from horovod.spark.common.store import Store


@dataclass(frozen=True)
class RowOptions:
    """How a rank reads its rows; travels to it."""

    columns: Sequence[str]
    threads: int
    transform: Callable[[], Callable[[Any], Any]] | None = None
    edited: Sequence[tuple[str, Any, Sequence[int] | None, bool]] = ()
    removed: Sequence[str] = ()


def write_rows(frame: Any, store: Store, path: str, files: int) -> int:
    """Writes a DataFrame of Spark, and returns how many rows it has. Vectors become lists."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.sql.functions import col

    columns = [
        vector_to_array(col(f"`{field.name}`"), "float32").alias(field.name)
        if field.dataType.typeName() in ("vector", "vectorudt")
        else col(f"`{field.name}`")
        for field in frame.schema.fields
    ]
    store.create_folder(path)  # an error of Spark would not name the folder in its first line
    written = frame.select(*columns).repartition(files)
    written.write.mode("overwrite").parquet(store.for_spark(path))
    return int(store.dataset(path).count_rows())


def read_rows(
    store: Store, path: str, rank: int, size: int, options: RowOptions
) -> dict[str, numpy.ndarray]:
    """The rows of one rank, by column. All ranks have equally many: where the rows do not divide,
    the last ranks have some of the first rows again."""
    pyarrow.set_io_thread_count(max(1, options.threads))
    dataset = store.dataset(path)
    total = dataset.count_rows()
    if total == 0:
        raise ValueError(f"there are no rows below {path}")
    share = math.ceil(total / size)
    wanted = numpy.arange(rank * share, (rank + 1) * share) % total
    tables = []
    first = 0
    for fragment in sorted(dataset.get_fragments(), key=lambda one: one.path):
        count = fragment.count_rows()
        here = wanted[(wanted >= first) & (wanted < first + count)] - first
        if len(here):
            table = fragment.to_table(use_threads=options.threads > 0)
            tables.append(table.take(pyarrow.array(here)))
        first += count
    return _arrays(pyarrow.concat_tables(tables), options)


def _arrays(table: Any, options: RowOptions) -> dict[str, numpy.ndarray]:
    if options.transform is None:
        return {name: _column(table.column(name), name) for name in options.columns}
    frame = options.transform()(table.to_pandas())
    frame = frame.drop(columns=[name for name in options.removed if name in frame.columns])
    arrays = {
        name: numpy.stack([numpy.asarray(value) for value in frame[name]])
        for name in options.columns
    }
    for name, dtype, shape, _ in options.edited:
        if name in arrays:
            array = arrays[name].astype(dtype)
            arrays[name] = array.reshape(-1, *shape) if shape else array
    return arrays


def _column(column: Any, name: str) -> numpy.ndarray:
    if column.null_count:
        raise ValueError(
            f"column {name} has no value in {column.null_count} of {len(column)} rows: fill them, "
            "or leave those rows out (DataFrame.na)"
        )
    if not (pyarrow.types.is_list(column.type) or pyarrow.types.is_fixed_size_list(column.type)):
        array: numpy.ndarray = column.to_numpy()
        if array.dtype == object:
            raise ValueError(
                f"column {name} has the type {column.type}: expected numbers, or lists or vectors "
                "of them; transformation_fn can make them"
            )
        return array
    flat = column.combine_chunks()
    lengths = set(pyarrow.compute.list_value_length(flat).to_pylist())
    if len(lengths) != 1:
        raise ValueError(
            f"column {name} has lists of {min(lengths)} to {max(lengths)} numbers: all rows need "
            "the same length"
        )
    values = flat.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(flat), -1)  # type: ignore[no-any-return]


def shaped(array: numpy.ndarray, shape: Sequence[int | None] | None) -> numpy.ndarray:
    """As a framework takes it: float32 for float64, and rows of that shape; its first is -1 or
    None, the rows, or left out where the others are as many numbers as a row has."""
    if array.dtype == numpy.float64:
        array = array.astype(numpy.float32)
    if shape is None:
        return array
    numbers = [size for size in shape if size not in (None, -1)]
    return array.reshape(len(array), *numbers)


def batches(
    count: int, batch_size: int, steps: int | None, order: numpy.ndarray
) -> Iterator[numpy.ndarray]:
    """The numbers of the rows of each step of an epoch."""
    for step in range(steps_of(count, batch_size, steps)):
        yield order[step * batch_size : (step + 1) * batch_size]


def steps_of(count: int, batch_size: int, most: int | None) -> int:
    steps = math.ceil(count / batch_size)
    return steps if most is None else min(steps, most)
