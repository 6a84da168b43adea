# SPDX-License-Identifier: Apache-2.0
"""From `fit` to a model: what the estimators of all frameworks share."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from pyspark.ml import Estimator, Model
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql.types import DoubleType, StructField, StructType

from horovod.spark.common.backend import SparkBackend
from horovod.spark.common.data import RowOptions, shaped, write_rows
from horovod.spark.common.params import (
    ESTIMATOR,
    MODEL,
    check_columns,
    check_values,
    defaults,
    with_params,
)
from horovod.spark.common.store import Store


@dataclass(frozen=True)
class TrainingData:
    """Where the ranks find their rows."""

    store: Store
    train_path: str
    validation_path: str | None
    train_rows: RowOptions
    validation_rows: RowOptions


def known(name: str, params: dict[str, Any], allowed: dict[str, Any]) -> dict[str, Any]:
    unknown = params.keys() - allowed.keys()
    if unknown:
        raise TypeError(f"{name} has no parameter {', '.join(sorted(unknown))}")
    return params


@with_params(ESTIMATOR)
class HorovodEstimator(Estimator):
    """`fit` writes the rows of a DataFrame to the store, trains a copy of the model in each rank
    and returns a transformer with the trained model."""

    def __init__(self, own: dict[str, Any], params: dict[str, Any]) -> None:
        super().__init__()
        values = {**defaults(ESTIMATOR), **own}
        self._setDefault(**values)
        self._set(**known(type(self).__name__, params, values))

    def setParams(self, **params: Any) -> HorovodEstimator:
        self._set(**params)
        return self

    def values(self) -> dict[str, Any]:
        """By parameter. None means the default, as for an argument that is not given."""
        found = {param.name: self.getOrDefault(param) for param in self.params}
        return {
            name: self._defaultParamMap[getattr(self, name)] if value is None else value
            for name, value in found.items()
        }

    def _fit(self, dataset: Any) -> Any:
        values = self.values()
        check_values(values)
        self._check(values)
        run_id = values["run_id"] or f"{type(self).__name__}-{time.time_ns()}"
        backend = values["backend"] or SparkBackend(values["num_proc"])
        with _prepared(dataset, values, run_id, backend.num_processes()) as data:
            env = {} if values["use_gpu"] else {"CUDA_VISIBLE_DEVICES": ""}
            function, argument, variables = self._training(values, data, run_id)
            results = backend.run(function, (argument,), env={**env, **variables})
        return self._trained(values, run_id, results[0])

    def _check(self, values: dict[str, Any]) -> None:
        """Raises for what this framework needs and does not have."""

    def _training(
        self, values: dict[str, Any], data: TrainingData, run_id: str
    ) -> tuple[Callable[[Any], Any], Any, dict[str, str]]:
        """A function for the ranks, its argument, and variables of the ranks."""
        raise NotImplementedError

    def _trained(self, values: dict[str, Any], run_id: str, result: Any) -> Any:
        """The transformer, from what rank 0 returned."""
        raise NotImplementedError


@contextlib.contextmanager
def _prepared(frame: Any, values: dict[str, Any], run_id: str, size: int) -> Iterator[TrainingData]:
    """The rows in the store, which are removed afterwards."""
    weight = [values["sample_weight_col"]] if values["sample_weight_col"] else []
    columns = [*values["feature_cols"], *values["label_cols"], *weight]
    validation = values["validation"]
    marked = [validation] if isinstance(validation, str) else []
    check_columns([*columns, *marked], frame.columns)
    store: Store = values["store"]
    train_path, validation_path = store.get_train_data_path(run_id), None
    if values["shuffle_buffer_size"]:
        warnings.warn(
            "shuffle_buffer_size is deprecated: all rows of a rank are shuffled",
            DeprecationWarning,
            stacklevel=4,
        )
    files = size * values["partitions_per_process"]
    # transformation_fn may read any column.
    wide = frame if values["transformation_fn"] else frame.select(*columns, *marked)
    train, rest = _split(wide, validation, values["random_seed"])
    try:
        write_rows(train, store, train_path, files)
        if rest is not None:
            validation_path = store.get_val_data_path(run_id)
            write_rows(rest, store, validation_path, files)
        yield TrainingData(
            store,
            train_path,
            validation_path,
            _row_options(values, columns, "train_reader_num_workers"),
            _row_options(values, columns, "val_reader_num_workers"),
        )
    finally:
        store.delete(train_path)
        if validation_path:
            store.delete(validation_path)


def _split(frame: Any, validation: float | str | None, seed: int | None) -> tuple[Any, Any]:
    if not validation:
        return frame, None
    if isinstance(validation, str):
        is_validation = frame[validation].cast("boolean")
        return frame.filter(~is_validation), frame.filter(is_validation)
    train, rest = frame.randomSplit([1 - validation, validation], seed)
    return train, rest


def _row_options(values: dict[str, Any], columns: Sequence[str], threads: str) -> RowOptions:
    return RowOptions(
        columns,
        0 if values["reader_pool_type"] == "dummy" else values[threads],
        values["transformation_fn"],
        values["transformation_edit_fields"] or (),
        values["transformation_removed_fields"] or (),
    )


@with_params(MODEL)
class HorovodModel(Model):
    """`transform` adds a column for each output of the trained model: a number, or a vector."""

    def __init__(self, own: dict[str, Any], params: dict[str, Any]) -> None:
        super().__init__()
        values = {**defaults(MODEL), **own}
        self._setDefault(**values)
        self._set(**known(type(self).__name__, params, values))

    def _predictor(self) -> Callable[[], Callable[[list[numpy.ndarray]], list[numpy.ndarray]]]:
        """Makes, in a task, a function from arrays of inputs to arrays of outputs."""
        raise NotImplementedError

    def _input_shapes(self) -> Sequence[Sequence[int | None] | None]:
        raise NotImplementedError

    def _transform(self, dataset: Any) -> Any:
        features = self.getFeatureColumns()
        check_columns(features, dataset.columns)
        names = self.getOutputCols() or [f"{name}__output" for name in self.getLabelColumns()]
        shapes, batch_size = self._input_shapes(), self.getBatchSize()
        make = self._predictor()

        def inputs(rows: Sequence[Any]) -> list[numpy.ndarray]:
            arrays = [numpy.stack([_numbers(row[name], name) for row in rows]) for name in features]
            return [shaped(array, shape) for array, shape in zip(arrays, shapes, strict=True)]

        def predict(rows: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
            function = None
            for group in _groups(rows, batch_size):
                function = function or make()
                outputs = [output.reshape(len(group), -1) for output in function(inputs(group))]
                for row, *values in zip(group, *outputs, strict=True):
                    yield (*row, *map(_value, values))

        first = dataset.head(1)
        outputs = make()(inputs(first)) if first else [numpy.zeros(1) for _ in names]
        added = [
            StructField(name, DoubleType() if output.size == 1 else VectorUDT())
            for name, output in zip(names, outputs, strict=True)
        ]
        schema = StructType([*dataset.schema.fields, *added])
        return dataset.sparkSession.createDataFrame(dataset.rdd.mapPartitions(predict), schema)


def _numbers(value: Any, name: str) -> numpy.ndarray:
    if value is None:
        raise ValueError(f"column {name} has no value in a row: fill it, or leave the row out")
    return value.toArray() if hasattr(value, "toArray") else numpy.asarray(value)


def _value(values: numpy.ndarray) -> Any:
    return float(values[0]) if len(values) == 1 else Vectors.dense(values.astype(float))


def _groups(rows: Iterator[Any], size: int) -> Iterator[list[Any]]:
    group: list[Any] = []
    for row in rows:
        group.append(row)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group
