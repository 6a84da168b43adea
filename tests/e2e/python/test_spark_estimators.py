# SPDX-License-Identifier: Apache-2.0
"""The estimators on Fashion-MNIST and a real Spark."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark import SparkContext
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from horovod.spark.common.data import RowOptions, read_rows
from horovod.spark.common.params import ESTIMATOR, KERAS, TORCH, Field
from horovod.spark.common.store import Store

IMAGES = Path("/usr/share/datasets/fashion-mnist")
ROWS = 1200
SUPPORT = Path(__file__).resolve().parents[3] / "runtime/python/support/estimators/parameters.md"


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """As if a cell had defined it: a rank cannot import it."""
    function.__module__ = "__main__"
    return function


def array_of(name: str, header: int) -> numpy.ndarray:
    content = gzip.decompress((IMAGES / name).read_bytes())
    return numpy.frombuffer(content, numpy.uint8, offset=header)


@pytest.fixture(scope="module")
def images(spark: SparkContext) -> DataFrame:
    """Vectors of 784 numbers, the class, a weight, and whether it is for validation."""
    pixels = array_of("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:ROWS] / 255.0
    labels = array_of("train-labels-idx1-ubyte.gz", 8)[:ROWS]
    schema = StructType(
        [
            StructField("image", VectorUDT()),
            StructField("label", LongType()),
            StructField("weight", DoubleType()),
            StructField("is_validation", LongType()),
        ]
    )
    rows = [
        (Vectors.dense(image), int(label), 1.0, int(i % 6 == 0))
        for i, (image, label) in enumerate(zip(pixels, labels, strict=True))
    ]
    frame = SparkSession.builder.getOrCreate().createDataFrame(rows, schema)
    return frame.repartition(4).cache()


def accuracy(frame: DataFrame) -> float:
    rows = frame.select("label", "label__output").collect()
    return float(numpy.mean([row[0] == int(row[1].argmax()) for row in rows]))


def test_keras_trains_transforms_and_resumes(images: DataFrame, tmp_path: Path) -> None:
    import keras

    from horovod.spark.keras import KerasEstimator

    store = Store.create(str(tmp_path / "store"))
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    estimator = KerasEstimator(
        num_proc=2,
        store=store,
        model=model,
        optimizer=keras.optimizers.Adam(0.003),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        feature_cols=["image"],
        label_cols=["label"],
        sample_weight_col="weight",
        validation="is_validation",
        batch_size=25,
        epochs=4,
        run_id="keras",
        random_seed=1,
        verbose=0,
        partitions_per_process=2,
    )

    trained = estimator.fit(images)

    history = trained.getHistory()
    assert [len(history[name]) for name in ("loss", "val_loss", "val_accuracy")] == [4, 4, 4]
    assert accuracy(trained.transform(images)) > 0.65
    assert store.exists(store.get_checkpoint_path("keras") + "/checkpoint.npz")
    assert not store.exists(store.get_train_data_path("keras"))

    again = estimator.setEpochs(1).fit(images)

    assert again.getHistory()["loss"][0] < history["loss"][1], "it begins where the first ended"


def test_torch_trains_transforms_and_resumes(images: DataFrame, tmp_path: Path) -> None:
    from horovod.spark.torch import TorchEstimator

    torch.manual_seed(1)
    store = Store.create(str(tmp_path / "store"))
    model = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )

    @by_value
    def hits(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return (output.argmax(1) == label).float().mean()

    estimator = TorchEstimator(
        num_proc=2,
        store=store,
        model=model,
        optimizer=torch.optim.Adam(
            [{"params": model[3].parameters()}, {"params": model[1].parameters(), "lr": 0.004}],
            lr=0.003,
        ),
        loss=torch.nn.functional.cross_entropy,
        metrics=[hits],
        feature_cols=["image"],
        input_shapes=[[-1, 1, 28, 28]],
        label_cols=["label"],
        sample_weight_col="weight",
        validation=0.2,
        batch_size=25,
        epochs=4,
        run_id="torch",
        random_seed=1,
        verbose=0,
        partitions_per_process=2,
    )

    trained = estimator.fit(images)

    history = trained.getHistory()
    assert [epoch["epoch"] for epoch in history] == [0, 1, 2, 3]
    assert history[-1]["validation"]["hits"] > 0.65
    assert accuracy(trained.transform(images)) > 0.65
    assert store.exists(store.get_checkpoint_path("torch") + "/checkpoint.pt")

    again = estimator.setEpochs(1).fit(images)

    assert again.getHistory()[0]["train"]["loss"] < history[1]["train"]["loss"]


# ---- rows ----------------------------------------------------------------------------------------


def test_all_ranks_have_equally_many_rows_and_together_all(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    store = Store.create(str(tmp_path))
    path = store.get_train_data_path("run")
    (tmp_path / "intermediate_train_data.run").mkdir()
    for part in range(3):
        numbers = list(range(part * 4, part * 4 + 4))
        table = pyarrow.table({"number": numbers, "pair": [[n, -n] for n in numbers]})
        parquet.write_table(table, tmp_path / f"intermediate_train_data.run/{part}.parquet")

    options = RowOptions(("number", "pair"), 1)
    shares = [read_rows(store, path, rank, 5, options) for rank in range(5)]

    assert {len(share["number"]) for share in shares} == {3}
    assert set(numpy.concatenate([share["number"] for share in shares])) == set(range(12))
    assert all((share["pair"][:, 1] == -share["number"]).all() for share in shares)


def test_transformation_and_lists_of_other_lengths(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    store = Store.create(str(tmp_path))
    (tmp_path / "rows").mkdir()
    table = pyarrow.table({"text": ["1 2", "3 4"], "ragged": [[1], [1, 2]]})
    parquet.write_table(table, tmp_path / "rows/0.parquet")
    path = store.prefix_path + "/rows"

    def make() -> Callable[[Any], Any]:
        def transform(frame: Any) -> Any:
            frame["numbers"] = [text.split() for text in frame["text"]]
            return frame

        return transform

    edited = [("numbers", numpy.float32, (1, 2), False)]
    options = RowOptions(("numbers",), 1, make, edited, ("text",))
    rows = read_rows(store, path, 0, 1, options)

    assert rows["numbers"].tolist() == [[[1.0, 2.0]], [[3.0, 4.0]]]
    with pytest.raises(ValueError, match="column ragged has lists of 1 to 2 numbers"):
        read_rows(store, path, 0, 1, RowOptions(("ragged",), 1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, None], "column number has no value in 1 of 2 rows"),
        (["a", "b"], "column number has the type string: expected numbers"),
    ],
)
def test_rows_that_no_model_takes_are_errors_by_name(
    tmp_path: Path, values: list[Any], message: str
) -> None:
    import pyarrow
    from pyarrow import parquet

    (tmp_path / "rows").mkdir()
    parquet.write_table(pyarrow.table({"number": values}), tmp_path / "rows/0.parquet")
    store = Store.create(str(tmp_path))

    with pytest.raises(ValueError, match=message):
        read_rows(store, store.prefix_path + "/rows", 0, 1, RowOptions(("number",), 1))


# ---- parameters ----------------------------------------------------------------------------------


def rows_of(title: str) -> dict[str, tuple[str, str]]:
    part = SUPPORT.read_text().split(f"## `{title}`")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+) \|$", part, re.MULTILINE)
    return {name: (accessor, works) for name, accessor, works in found}


@pytest.mark.parametrize(
    ("title", "fields"),
    [
        ("both estimators", ESTIMATOR),
        ("horovod.spark.keras.KerasEstimator", KERAS),
        ("horovod.spark.torch.TorchEstimator", TORCH),
    ],
)
def test_the_table_has_every_parameter(title: str, fields: tuple[Field, ...]) -> None:
    expected = {field.name: field.accessor for field in fields}
    assert {name: accessor for name, (accessor, _) in rows_of(title).items()} == expected


def test_each_parameter_has_getter_and_setter() -> None:
    from horovod.spark.keras import KerasEstimator
    from horovod.spark.torch import TorchEstimator

    for kind, own in ((KerasEstimator, KERAS), (TorchEstimator, TORCH)):
        estimator = kind()
        for field in (*ESTIMATOR, *own):
            assert getattr(estimator, f"get{field.accessor}")() == field.default
            getattr(estimator, f"set{field.accessor}")("value")
            assert getattr(estimator, f"get{field.accessor}")() == "value"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"compress_sparse_cols": True}, "Parquet compresses them; leave it out"),
        ({"mp_start_method": "spawn"}, "mp_start_method='spawn' is not supported"),
        ({"reader_pool_type": "process"}, "expected 'thread' or 'dummy'"),
        ({"store": None}, "store is missing"),
        ({"loss": None}, "loss is missing"),
        ({"backend": object()}, "num_proc and backend are both given"),
        ({"validation": 1.5}, "validation=1.5: expected a share"),
        ({"feature_cols": ["picture"]}, "the DataFrame has no column picture"),
        ({"feature_cols": "image"}, "feature_cols='image': expected a list, as ['image']"),
        ({"model": torch.nn.Linear(784, 10)}, "parameters that are not of model"),
    ],
)
def test_what_an_estimator_cannot_do_is_an_error_by_name(
    images: DataFrame, tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    from horovod.spark.torch import TorchEstimator

    model = torch.nn.Linear(784, 10)
    right = {
        "num_proc": 2,
        "store": Store.create(str(tmp_path)),
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss": torch.nn.functional.cross_entropy,
        "feature_cols": ["image"],
        "label_cols": ["label"],
    }
    with pytest.raises(ValueError, match=re.escape(message)):
        TorchEstimator(**{**right, **wrong}).fit(images)


def test_a_store_that_cannot_be_written_is_an_error_with_its_path(
    images: DataFrame, tmp_path: Path
) -> None:
    from horovod.spark.torch import TorchEstimator

    (tmp_path / "file").touch()
    model = torch.nn.Linear(784, 10)
    estimator = TorchEstimator(
        num_proc=2,
        store=Store.create(str(tmp_path / "file/store")),
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        loss=torch.nn.functional.cross_entropy,
        feature_cols=["image"],
        label_cols=["label"],
    )

    with pytest.raises(OSError, match=f"{tmp_path}/file/store"):
        estimator.fit(images)


def test_a_parameter_that_does_not_exist_is_named() -> None:
    from horovod.spark.keras import KerasEstimator

    with pytest.raises(TypeError, match="KerasEstimator has no parameter colour"):
        KerasEstimator(colour="red")


def test_stores_by_address(tmp_path: Path) -> None:
    kinds = {
        str(tmp_path): "LocalStore",
        "file:///tmp/x": "FilesystemStore",
        "hdfs://node:8020/x": "HDFSStore",
        "s3://bucket/x": "S3Store",
        "dbfs:/x": "DBFSLocalStore",
    }
    assert {path: type(Store.create(path)).__name__ for path in kinds} == kinds
    assert Store.create("dbfs:/x").prefix_path == "file:///dbfs/x"
    assert Store.create("s3://bucket/x").for_spark("s3://bucket/x/y") == "s3a://bucket/x/y"
