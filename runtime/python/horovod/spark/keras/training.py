# SPDX-License-Identifier: Apache-2.0
"""The training of a Keras model in a rank."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from horovod.spark.common.data import read_rows, shaped, steps_of
from horovod.spark.common.estimator import TrainingData
from horovod.spark.keras.models import load_model

CHECKPOINT = "checkpoint.npz"


@dataclass(frozen=True)
class KerasTraining:
    """Travels to the ranks."""

    package: str
    model: bytes
    optimizer: dict[str, Any]  # its configuration
    values: dict[str, Any]  # of the estimator's parameters
    data: TrainingData
    checkpoint: str  # path in the store


def train(task: KerasTraining) -> tuple[dict[str, list[float]], list[numpy.ndarray]] | None:
    """History and weights, from rank 0."""
    keras = importlib.import_module(task.package)
    import horovod.keras as hvd

    hvd.init()
    values = task.values
    if values["random_seed"] is not None:
        keras.utils.set_random_seed(values["random_seed"])
    model = load_model(task.package, task.model, values["custom_objects"])
    optimizer = keras.optimizers.deserialize(
        task.optimizer, custom_objects=dict(values["custom_objects"])
    )
    if task.data.store.exists(task.checkpoint):
        _restore(model, optimizer, task.data.store.read(task.checkpoint))
    compression = values["gradient_compression"]
    options = {"compression": compression} if compression else {}
    model.compile(
        optimizer=hvd.DistributedOptimizer(optimizer, **options),
        loss=values["loss"],
        loss_weights=values["loss_weights"],
        metrics=values["metrics"] or None,
    )
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        *values["callbacks"],
    ]
    if hvd.rank() == 0:
        callbacks.append(_checkpoint(keras, task))
        callbacks += [values["checkpoint_callback"]] if values["checkpoint_callback"] else []
    history = model.fit(
        _rows(keras, task, model, hvd, is_training=True),
        validation_data=_rows(keras, task, model, hvd, is_training=False),
        epochs=values["epochs"],
        verbose=values["verbose"] if hvd.rank() == 0 else 0,
        callbacks=callbacks,
        shuffle=False,  # of batches; _rows shuffles the rows
    ).history
    is_first = hvd.rank() == 0
    hvd.shutdown()
    if not is_first:
        return None
    return {name: [float(one) for one in each] for name, each in history.items()}, (
        model.get_weights()
    )


def _rows(keras: Any, task: KerasTraining, model: Any, hvd: Any, *, is_training: bool) -> Any:
    """The rows of this rank as a dataset of Keras; None where there is no validation."""
    values, data = task.values, task.data
    path = data.train_path if is_training else data.validation_path
    if path is None:
        return None
    options = data.train_rows if is_training else data.validation_rows
    arrays = read_rows(data.store, path, hvd.rank(), hvd.size(), options)
    inputs = [
        shaped(arrays[name], model_input.shape)
        for name, model_input in zip(values["feature_cols"], model.inputs, strict=True)
    ]
    shapes = values["label_shapes"] or [None] * len(values["label_cols"])
    labels = [
        shaped(arrays[name], shape)
        for name, shape in zip(values["label_cols"], shapes, strict=True)
    ]
    weight = values["sample_weight_col"]
    columns = (inputs, labels, [arrays[weight]] if weight else [])
    base = getattr(keras.utils, "PyDataset", None) or keras.utils.Sequence
    batch_size = values["batch_size"]
    most = values["train_steps_per_epoch" if is_training else "validation_steps_per_epoch"]
    if not is_training:
        batch_size = values["val_batch_size"] or batch_size
    is_shuffled = is_training and values["shuffle"] and values["shuffle_buffer_size"] != 0
    seed = (values["random_seed"] or 0) + hvd.rank()

    class Rows(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            self._random = numpy.random.default_rng(seed)
            self._order = numpy.arange(len(inputs[0]))
            self.on_epoch_end()

        def __len__(self) -> int:
            return steps_of(len(self._order), batch_size, most)

        def __getitem__(self, step: int) -> tuple[Any, ...]:
            rows = self._order[step * batch_size : (step + 1) * batch_size]
            groups = [[column[rows] for column in group] for group in columns if group]
            return tuple(group[0] if len(group) == 1 else tuple(group) for group in groups)

        def on_epoch_end(self) -> None:
            if is_shuffled:
                self._random.shuffle(self._order)

    return Rows()


def _checkpoint(keras: Any, task: KerasTraining) -> Any:
    class Checkpoint(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            content = io.BytesIO()
            state = _optimizer_variables(self.model.optimizer)
            numpy.savez(
                content,
                **{f"weight{i}": one for i, one in enumerate(self.model.get_weights())},
                **{f"optimizer{i}": numpy.array(one) for i, one in enumerate(state)},
            )
            task.data.store.write(task.checkpoint, content.getvalue())

    return Checkpoint()


def _restore(model: Any, optimizer: Any, content: bytes) -> None:
    """The last checkpoint of a run with the same name."""
    with numpy.load(io.BytesIO(content), allow_pickle=False) as arrays:
        model.set_weights(_numbered(arrays, "weight"))
        optimizer.build(model.trainable_variables)
        state = _numbered(arrays, "optimizer")
    variables = _optimizer_variables(optimizer)
    if len(state) == len(variables):  # else it is another optimizer, which begins anew
        for variable, value in zip(variables, state, strict=True):
            variable.assign(value)


def _numbered(arrays: Any, prefix: str) -> list[numpy.ndarray]:
    count = sum(1 for name in arrays.files if name.startswith(prefix))
    return [arrays[f"{prefix}{i}"] for i in range(count)]


def _optimizer_variables(optimizer: Any) -> Sequence[Any]:
    found = optimizer.variables
    return list(found() if callable(found) else found)
