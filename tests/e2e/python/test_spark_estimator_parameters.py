# SPDX-License-Identifier: Apache-2.0
"""Each parameter of the estimators that support/estimators/parameters.md says works has its effect
in the ranks. The ranks are processes of LocalBackend; Spark writes the rows."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy
import pytest
import torch

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark import SparkContext
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession

from horovod.spark.common.backend import LocalBackend, SparkBackend
from horovod.spark.common.store import Store
from horovod.spark.torch.training import _train_minibatch

ROWS = 120  # of them every sixth is for validation


@pytest.fixture(scope="module", autouse=True)
def _by_value() -> Iterator[None]:
    """What this file defines travels as if a cell had defined it: a rank cannot import it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def rows(spark: SparkContext) -> DataFrame:
    """In one partition, so that one Parquet file keeps their order."""
    columns = ["number", "pair", "double", "triple", "is_validation"]
    made = [
        (float(i), Vectors.dense(i, -i), 2.0 * i, [3.0 * i] * 4, int(i % 6 == 5))
        for i in range(ROWS)
    ]
    return SparkSession.builder.getOrCreate().createDataFrame(made, columns).coalesce(1).cache()


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    """What `record` has written, in the order of the files' names."""
    return [json.loads(file.read_text()) for file in sorted(folder.glob(f"{kind}.*"))]


def record(folder: str, kind: str, number: int, **what: Any) -> None:
    (Path(folder) / f"{kind}.{number}").write_text(json.dumps(what))


class NotedBackend(LocalBackend):
    """Notes the variables that the estimator gives to its ranks."""

    def run(self, fn: Any, args: Any = (), kwargs: Any = None, env: Any = None) -> list[Any]:
        self.env = dict(env)
        return super().run(fn, args, kwargs, env)


def compressor(folder: Path) -> type:
    """As those of hvd.Compression: leaves a file where a rank has used it."""

    class Noted:
        @staticmethod
        def compress(tensor: Any) -> tuple[Any, Any]:
            (folder / "compressed").touch()
            return tensor, None

        @staticmethod
        def decompress(tensor: Any, context: Any) -> Any:
            return tensor

    return Noted


def transformation(folder: Path) -> Callable[[], Callable[[Any], Any]]:
    """Makes the column `half`, and takes away `number`. Notes how many threads read."""

    def make() -> Callable[[Any], Any]:
        import os

        import pyarrow

        def transform(frame: Any) -> Any:
            assert "number" in frame.columns
            threads = pyarrow.io_thread_count()
            record(str(folder), f"read-{len(frame)}", os.getpid(), threads=threads)
            frame["half"] = frame["number"] / 2
            return frame

        return transform

    return make


# ---- Keras ---------------------------------------------------------------------------------------


def keras_model() -> Any:
    """Two inputs, two outputs, and a layer that only custom_objects can name, which keeps the first
    batch of `number` that it trains on."""
    import keras

    class FirstBatch(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.kept = self.add_weight(shape=(10, 1), initializer="zeros", trainable=False)
            self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, inputs: Any, training: bool = False) -> Any:
            if training:
                is_first = keras.ops.equal(self.steps, 0.0)
                self.kept.assign(keras.ops.where(is_first, inputs, self.kept))
                self.steps.assign_add(1.0)
            return inputs * 0.01

    number, pair = keras.Input((1,)), keras.Input((2,))
    joined = keras.layers.Concatenate()([FirstBatch(name="first")(number), pair])
    one = keras.layers.Dense(1, name="one")(joined)
    four = keras.layers.Reshape((2, 2), name="four")(keras.layers.Dense(4)(joined))
    return keras.Model([number, pair], [one, four]), {"FirstBatch": FirstBatch}


def keras_callback(folder: Path, store: Store, kind: str) -> Any:
    import keras

    class Noted(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            self.tests = 0

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            self.tests += 1

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            import os
            from pathlib import Path

            import horovod.keras as hvd

            data = Path(store.get_train_data_path("noted").removeprefix("file://"))
            record(
                str(folder),
                kind,
                hvd.rank(),
                steps=self.params["steps"],
                tests=self.tests,
                files=len(list(data.glob("*.parquet"))),
                gpus=os.environ.get("CUDA_VISIBLE_DEVICES"),
                own=os.environ.get("OF_THE_TEST"),
            )

    return Noted()


def keras_estimator(folder: Path, **others: Any) -> Any:
    import keras

    from horovod.spark.keras import KerasEstimator

    model, custom_objects = keras_model()
    return KerasEstimator(
        store=Store.create(str(folder / "store")),
        model=model,
        custom_objects=custom_objects,
        optimizer=keras.optimizers.SGD(1e-6),
        loss=["mse", "mse"],
        feature_cols=["number", "pair"],
        label_cols=["double", "triple"],
        label_shapes=[[-1, 1], [-1, 2, 2]],
        validation="is_validation",
        batch_size=10,
        random_seed=7,
        **others,
    )


def test_parameters_of_keras_act_in_the_ranks(
    rows: DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = NotedBackend(2)
    estimator = keras_estimator(
        tmp_path,
        backend=backend,
        loss_weights=[0.0, 0.5],
        gradient_compression=compressor(tmp_path),
        train_steps_per_epoch=3,
        val_batch_size=2,
        validation_steps_per_epoch=4,
        verbose=2,
        epochs=1,
        run_id="noted",
        partitions_per_process=3,
        train_reader_num_workers=4,
        val_reader_num_workers=3,
        transformation_fn=transformation(tmp_path),
        transformation_edit_fields=[("half", numpy.float32, (1,), False)],
        transformation_removed_fields=["number"],
        use_gpu=False,
        backend_env={"OF_THE_TEST": "1"},
    )
    store = estimator.getStore()
    estimator.setFeatureCols(["half", "pair"]).setCallbacks(
        [keras_callback(tmp_path, store, "each")]
    ).setCheckpointCallback(keras_callback(tmp_path, store, "first"))
    # The column is made in the ranks, so it is not there to be checked before.
    trained = estimator.fit(rows.selectExpr("*", "0.0 as half"))

    each = records(tmp_path, "each")
    assert each == [{"steps": 3, "tests": 4, "files": 6, "gpus": "", "own": "1"} for _ in range(2)]
    assert records(tmp_path, "first") == each[:1], "of rank 0 alone"
    assert backend.env["CUDA_VISIBLE_DEVICES"] == "" and backend.env["OF_THE_TEST"] == "1"
    assert (tmp_path / "compressed").exists()
    assert {one["threads"] for one in records(tmp_path, "read-50")} == {4}
    assert {one["threads"] for one in records(tmp_path, "read-10")} == {3}
    history = {name: values[0] for name, values in trained.getHistory().items()}
    assert history["loss"] == pytest.approx(0.5 * history["four_loss"], rel=1e-5)
    kept = trained.keras().get_layer("first").kept.numpy()
    assert set((kept * 2).ravel()) <= set(range(ROWS)), "halves of the numbers"
    assert capfd.readouterr().out.count("3/3 - ") == 1, "rank 0 alone prints"


@pytest.mark.parametrize(
    ("options", "is_shuffled"), [({"shuffle": True}, True), ({"shuffle": False}, False)]
)
def test_rows_for_keras_are_shuffled_or_not(
    rows: DataFrame, tmp_path: Path, options: dict[str, bool], is_shuffled: bool
) -> None:
    estimator = keras_estimator(
        tmp_path, backend=LocalBackend(1), partitions_per_process=1, verbose=0, **options
    )

    trained = estimator.fit(rows)

    first = trained.keras().get_layer("first").kept.numpy().ravel().tolist()
    in_order = [i for i in range(ROWS) if i % 6 != 5][:10]
    assert (first != in_order) == is_shuffled
    predictions = trained.setOutputCols(["a", "b"]).transform(rows.limit(3)).collect()
    assert isinstance(predictions[0].a, float) and len(predictions[0].b) == 4


# ---- PyTorch -------------------------------------------------------------------------------------


class TwoOutputs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Linear(3, 1)
        self.four = torch.nn.Linear(3, 4)

    def forward(self, number: torch.Tensor, pair: torch.Tensor) -> tuple[torch.Tensor, ...]:
        both = torch.cat([number, pair], 1) * 0.01
        return self.one(both), self.four(both).reshape(-1, 2, 2)


def torch_estimator(folder: Path, **others: Any) -> Any:
    from horovod.spark.torch import TorchEstimator

    torch.manual_seed(3)
    model = TwoOutputs()
    return TorchEstimator(
        store=Store.create(str(folder / "store")),
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-6),
        feature_cols=["number", "pair"],
        input_shapes=[[-1, 1], [-1, 2]],
        label_cols=["double", "triple"],
        label_shapes=[[-1, 1], [-1, 2, 2]],
        validation="is_validation",
        batch_size=10,
        **others,
    )


def noted_step(folder: Path) -> Callable[..., Any]:
    """The estimator's own step, which notes the first column of each batch."""

    def step(*arguments: Any) -> tuple[Any, Any]:
        inputs = arguments[4]
        number = len(list(folder.glob("batch.*")))
        record(str(folder), "batch", number + 1000, numbers=inputs[0].ravel().tolist())
        return _train_minibatch(*arguments)

    return step


def test_parameters_of_torch_act_in_the_ranks(
    rows: DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Callback:
        def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
            import os

            import horovod.torch as hvd

            gpus = os.environ.get("CUDA_VISIBLE_DEVICES")
            record(str(tmp_path), "each", hvd.rank(), epoch=epoch, gpus=gpus)

    def batch_size(output: torch.Tensor, label: torch.Tensor) -> float:
        return float(len(output))

    estimator = torch_estimator(
        tmp_path,
        backend=NotedBackend(2),
        loss_constructors=[torch.nn.MSELoss, torch.nn.L1Loss],
        loss_weights=[0.0, 1.0],
        metrics=[batch_size],
        gradient_compression=compressor(tmp_path),
        callbacks=[Callback()],
        epochs=2,
        train_steps_per_epoch=2,
        val_batch_size=4,
        validation_steps_per_epoch=2,
        train_reader_num_workers=4,
        val_reader_num_workers=3,
        transformation_fn=transformation(tmp_path),
        use_gpu=False,
        verbose=1,
    )

    trained = estimator.fit(rows)

    assert records(tmp_path, "each") == [{"epoch": 1, "gpus": ""} for _ in range(2)]
    assert (tmp_path / "compressed").exists()
    assert {one["threads"] for one in records(tmp_path, "read-50")} == {4}
    assert {one["threads"] for one in records(tmp_path, "read-10")} == {3}
    last = trained.getHistory()[-1]
    assert last["train"]["batch_size_0"] == 10 and last["validation"]["batch_size_0"] == 4
    # Of the two losses, only the mean of absolute values counts: three times a number.
    assert 0 < last["validation"]["loss"] < 3 * ROWS
    assert len(re.findall(r"'epoch': 1\b", capfd.readouterr().out)) == 1, "rank 0 alone prints"


@pytest.mark.parametrize(
    ("options", "is_shuffled"),
    [({}, True), ({"shuffle": False}, False), ({"shuffle_buffer_size": 0}, False)],
)
def test_rows_for_torch_are_shuffled_or_not_and_by_the_seed(
    rows: DataFrame, tmp_path: Path, options: dict[str, Any], is_shuffled: bool
) -> None:
    orders = []
    for seed in (5, 5, 6):
        folder = tmp_path / str(len(orders))
        folder.mkdir()
        torch_estimator(
            folder,
            backend=LocalBackend(1),
            loss=[torch.nn.functional.mse_loss, torch.nn.functional.mse_loss],
            train_minibatch_fn=noted_step(folder),
            partitions_per_process=1,
            random_seed=seed,
            verbose=0,
            **options,
        ).fit(rows)
        orders.append([n for batch in records(folder, "batch") for n in batch["numbers"]])

    in_order = [i for i in range(ROWS) if i % 6 != 5]
    assert sorted(orders[0]) == in_order
    assert (orders[0] != in_order) == is_shuffled
    assert orders[1] == orders[0]
    assert (orders[2] != orders[0]) == is_shuffled


def test_none_is_the_default() -> None:
    from horovod.spark.keras import KerasEstimator

    values = KerasEstimator(callbacks=None, batch_size=None, epochs=3).values()

    assert (values["callbacks"], values["batch_size"], values["epochs"]) == ([], 32, 3)


def test_without_num_proc_spark_says_how_many(spark: SparkContext) -> None:
    assert SparkBackend().num_processes() == spark.defaultParallelism
    assert SparkBackend(3).num_processes() == 3


def test_a_share_of_the_rows_is_for_validation_by_the_seed(rows: DataFrame, tmp_path: Path) -> None:
    sizes = []
    for seed in (1, 1):
        estimator = torch_estimator(
            tmp_path,
            backend=LocalBackend(1),
            loss=[torch.nn.functional.mse_loss, torch.nn.functional.mse_loss],
            transformation_fn=transformation(tmp_path),
            random_seed=seed,
            verbose=0,
        )
        estimator.setValidation(0.5).fit(rows)
        found = sorted(
            int(file.name.split("-")[1].split(".")[0]) for file in tmp_path.glob("read-*")
        )
        sizes.append(found)
        for file in tmp_path.glob("read-*"):
            file.unlink()

    assert sum(sizes[0]) == ROWS and min(sizes[0]) > ROWS / 4
    assert sizes[0] == sizes[1]
