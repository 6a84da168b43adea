# SPDX-License-Identifier: Apache-2.0
"""The parameters of the estimators, under the original's names. `support/estimators/parameters.md`
says of each what it does here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.ml.param.shared import Param, Params

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class Field:
    name: str
    accessor: str  # after get and set
    default: Any
    meaning: str


ESTIMATOR = (
    Field("num_proc", "NumProc", None, "number of processes"),
    Field("model", "Model", None, "model to train"),
    Field("backend", "Backend", None, "what runs the training function"),
    Field("store", "Store", None, "where data and results are kept"),
    Field("optimizer", "Optimizer", None, "optimizer"),
    Field("loss", "Loss", None, "loss, or a list with one for each output"),
    Field("loss_weights", "LossWeights", None, "weight of each loss"),
    Field("sample_weight_col", "SampleWeightCol", None, "column with the weight of each row"),
    Field("gradient_compression", "GradientCompression", None, "hvd.Compression"),
    Field("metrics", "Metrics", [], "metrics to record"),
    Field("feature_cols", "FeatureCols", None, "columns with the model's inputs"),
    Field("label_cols", "LabelCols", None, "columns with what the outputs should be"),
    Field("label_shapes", "LabelShapes", None, "shape of each label"),
    Field("validation", "Validation", None, "share of the rows, or a column that is true for some"),
    Field("callbacks", "Callbacks", [], "callbacks"),
    Field("batch_size", "BatchSize", 32, "rows of a process in a step"),
    Field("val_batch_size", "ValBatchSize", None, "the same in validation"),
    Field("epochs", "Epochs", 1, "epochs"),
    Field("verbose", "Verbose", 1, "0: silent"),
    Field("random_seed", "RandomSeed", None, "seed of the framework and of the order of rows"),
    Field("shuffle", "Shuffle", True, "another order of rows in each epoch"),
    Field("shuffle_buffer_size", "ShufflingBufferSize", None, "0: do not shuffle"),
    Field("partitions_per_process", "PartitionsPerProcess", 10, "Parquet files per process"),
    Field("run_id", "RunId", None, "name of the run; one that exists is resumed"),
    Field("train_steps_per_epoch", "TrainStepsPerEpoch", None, "most steps of an epoch"),
    Field("validation_steps_per_epoch", "ValidationStepsPerEpoch", None, "most in validation"),
    Field("transformation_fn", "TransformationFn", None, "makes a function of pandas frames"),
    Field("transformation_edit_fields", "TransformationEditFields", None, "what it has changed"),
    Field("transformation_removed_fields", "TransformationRemovedFields", None, "has removed"),
    Field("train_reader_num_workers", "TrainReaderNumWorker", 2, "threads that read"),
    Field("val_reader_num_workers", "ValReaderNumWorker", 2, "the same in validation"),
    Field("reader_pool_type", "ReaderPoolType", "thread", "thread, or dummy for no other thread"),
    Field("inmemory_cache_all", "InMemoryCacheAll", False, "rows are always kept in memory"),
    Field("compress_sparse_cols", "CompressSparseCols", False, "not supported"),
    Field("use_gpu", "UseGpu", True, "False: hide the GPUs from the processes"),
    Field("mp_start_method", "MpStartMethod", None, "not supported"),
)
KERAS = (
    Field("custom_objects", "CustomObjects", {}, "classes and functions of the model, by name"),
    Field("checkpoint_callback", "CheckpointCallback", None, "a callback of rank 0 alone"),
    Field("backend_env", "BackendEnv", {}, "variables of the processes"),
)
TORCH = (
    Field("input_shapes", "InputShapes", None, "shape of each input"),
    Field("loss_constructors", "LossConstructors", None, "functions that make the losses"),
    Field("train_minibatch_fn", "TrainMinibatchFn", None, "takes a step, in place of ours"),
)
MODEL = (
    Field("model", "Model", None, "trained model"),
    Field("history", "History", None, "metrics of each epoch"),
    Field("run_id", "RunId", None, "name of the run"),
    Field("feature_columns", "FeatureColumns", None, "columns with the model's inputs"),
    Field("label_columns", "LabelColumns", None, "columns with the labels"),
    Field("outputCols", "OutputCols", None, "columns that transform adds"),
    Field("batch_size", "BatchSize", 1024, "rows that transform computes at a time"),
)

# The original's readers needed these; pyarrow's have no use for them.
_REFUSED = {
    "compress_sparse_cols": (
        False,
        "vectors are written dense, and Parquet compresses them",
    ),
    "mp_start_method": (None, "no other process reads the data"),
}
_POOLS = ("thread", "dummy")
_LISTS = ("feature_cols", "label_cols")


def with_params(*tables: Sequence[Field]) -> Callable[[_Class], _Class]:
    """Gives a class its Params with their setters and getters."""

    def decorate(target: _Class) -> _Class:
        for field in (field for table in tables for field in table):
            param = Param(Params._dummy(), field.name, field.meaning)
            setattr(target, field.name, param)
            setattr(target, f"get{field.accessor}", _getter(field.name))
            setattr(target, f"set{field.accessor}", _setter(field.name))
        return target

    return decorate


def defaults(*tables: Sequence[Field]) -> dict[str, Any]:
    return {field.name: field.default for table in tables for field in table}


def _getter(name: str) -> Callable[[Any], Any]:
    return lambda self: self.getOrDefault(getattr(self, name))


def _setter(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, value: self._set(**{name: value})


def check_values(values: dict[str, Any]) -> None:
    """Raises ValueError for what an estimator cannot do, and says what to do."""
    for name, (only, why) in _REFUSED.items():
        if values[name] != only:
            raise ValueError(f"{name}={values[name]!r} is not supported: {why}; leave it out")
    if values["reader_pool_type"] not in _POOLS:
        raise ValueError(
            f"reader_pool_type={values['reader_pool_type']!r} is not supported: "
            "expected 'thread' or 'dummy', because pyarrow reads with threads"
        )
    for name in ("model", "store", "feature_cols", "label_cols"):
        if not values[name]:
            raise ValueError(f"{name} is missing: an estimator needs one")
    for name in _LISTS:
        if isinstance(values[name], str):
            raise ValueError(f"{name}={values[name]!r}: expected a list, as [{values[name]!r}]")
    if values["num_proc"] and values["backend"]:
        raise ValueError("num_proc and backend are both given: the backend has its own number")
    validation = values["validation"]
    if isinstance(validation, float) and not 0 <= validation < 1:
        raise ValueError(f"validation={validation}: expected a share from 0 up to 1, or a column")


def check_columns(wanted: Iterable[str], columns: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise ValueError(f"the DataFrame has no column {', '.join(missing)}: it has {columns}")
