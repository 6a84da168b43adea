# SPDX-License-Identifier: Apache-2.0
"""KerasEstimator: a Keras model trained on a DataFrame of Spark."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from horovod.spark.common.estimator import HorovodEstimator, HorovodModel, TrainingData
from horovod.spark.common.params import KERAS, defaults, with_params
from horovod.spark.keras.models import dump_model, environment_of, load_model, package_of
from horovod.spark.keras.training import CHECKPOINT, KerasTraining, train


@with_params(KERAS)
class KerasEstimator(HorovodEstimator):
    """Trains a model of Keras 3 or tf_keras: KerasEstimator(num_proc=2, store=, model=,
    optimizer=, loss=, feature_cols=, label_cols=, ...)."""

    def __init__(self, **params: Any) -> None:
        super().__init__(defaults(KERAS), params)

    def _check(self, values: dict[str, Any]) -> None:
        package_of(values["model"])
        if not values["loss"]:
            raise ValueError("loss is missing: an estimator needs one")
        if not (values["optimizer"] or getattr(values["model"], "optimizer", None)):
            raise ValueError("optimizer is missing: give one, or a model that was compiled")

    def _training(
        self, values: dict[str, Any], data: TrainingData, run_id: str
    ) -> tuple[Callable[[Any], Any], Any, dict[str, str]]:
        model = values["model"]
        package = package_of(model)
        optimizers = importlib.import_module(package).optimizers
        optimizer = optimizers.get(values["optimizer"] or model.optimizer)
        sent = {
            name: value
            for name, value in values.items()
            if name not in ("model", "optimizer", "backend", "store", "transformation_fn")
        }
        task = KerasTraining(
            package,
            dump_model(model),
            optimizers.serialize(optimizer),
            sent,
            data,
            f"{data.store.get_checkpoint_path(run_id)}/{CHECKPOINT}",
        )
        return train, task, {**environment_of(package), **values["backend_env"]}

    def _trained(self, values: dict[str, Any], run_id: str, result: Any) -> KerasModel:
        history, weights = result
        model = values["model"]
        trained = load_model(package_of(model), dump_model(model), values["custom_objects"])
        trained.set_weights(weights)
        return KerasModel(
            model=trained,
            history=history,
            run_id=run_id,
            feature_columns=values["feature_cols"],
            label_columns=values["label_cols"],
            custom_objects=values["custom_objects"],
        )


@with_params(KERAS[:1])
class KerasModel(HorovodModel):
    """A trained model of Keras as a transformer."""

    def __init__(self, **params: Any) -> None:
        super().__init__(defaults(KERAS[:1]), params)

    def keras(self) -> Any:
        return self.getModel()

    def _input_shapes(self) -> Sequence[Sequence[int | None]]:
        return [tuple(one.shape) for one in self.getModel().inputs]

    def _predictor(self) -> Callable[[], Callable[[list[numpy.ndarray]], list[numpy.ndarray]]]:
        model = self.getModel()
        package, content = package_of(model), dump_model(model)
        custom_objects, variables = dict(self.getCustomObjects()), environment_of(package)

        def make() -> Callable[[list[numpy.ndarray]], list[numpy.ndarray]]:
            import os

            for name, value in variables.items():
                os.environ.setdefault(name, value)
            loaded = load_model(package, content, custom_objects)

            def predict(inputs: list[numpy.ndarray]) -> list[numpy.ndarray]:
                outputs = loaded.predict_on_batch(inputs[0] if len(inputs) == 1 else inputs)
                return outputs if isinstance(outputs, list | tuple) else [outputs]

            return predict

        return make
