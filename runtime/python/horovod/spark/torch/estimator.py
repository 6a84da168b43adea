# SPDX-License-Identifier: Apache-2.0
"""TorchEstimator: a PyTorch model trained on a DataFrame of Spark."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from horovod.spark.common.estimator import HorovodEstimator, HorovodModel, TrainingData
from horovod.spark.common.params import TORCH, defaults, with_params
from horovod.spark.torch.training import CHECKPOINT, TorchTraining, train


@with_params(TORCH)
class TorchEstimator(HorovodEstimator):
    """TorchEstimator(num_proc=2, store=, model=, optimizer=, loss=, feature_cols=, label_cols=,
    ...). Loss and metrics are functions of an output and a label."""

    def __init__(self, **params: Any) -> None:
        super().__init__(defaults(TORCH), params)

    def _check(self, values: dict[str, Any]) -> None:
        if not (values["loss"] or values["loss_constructors"]):
            raise ValueError("loss is missing: an estimator needs one, or loss_constructors")
        if values["loss"] and values["loss_constructors"]:
            raise ValueError("loss and loss_constructors are both given: leave one of them out")
        if not isinstance(values["optimizer"], torch.optim.Optimizer):
            raise ValueError("optimizer is missing: give one of torch.optim for the model")
        _group_names(values["model"], values["optimizer"])

    def _training(
        self, values: dict[str, Any], data: TrainingData, run_id: str
    ) -> tuple[Callable[[Any], Any], Any, dict[str, str]]:
        optimizer = values["optimizer"]
        sent = {
            name: value
            for name, value in values.items()
            if name not in ("model", "optimizer", "backend", "store", "transformation_fn")
        }
        task = TorchTraining(
            values["model"],
            type(optimizer),
            optimizer.state_dict(),
            _group_names(values["model"], optimizer),
            sent,
            data,
            f"{data.store.get_checkpoint_path(run_id)}/{CHECKPOINT}",
        )
        return train, task, {}

    def _trained(self, values: dict[str, Any], run_id: str, result: Any) -> TorchModel:
        history, state = result
        trained = copy.deepcopy(values["model"]).cpu()
        trained.load_state_dict(state)
        return TorchModel(
            model=trained.eval(),
            history=history,
            run_id=run_id,
            feature_columns=values["feature_cols"],
            label_columns=values["label_cols"],
            input_shapes=values["input_shapes"],
        )


def _group_names(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[list[str]]:
    """The parameters of each group of the optimizer."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [[names.get(id(one)) for one in group["params"]] for group in optimizer.param_groups]
    if any(name is None for group in groups for name in group):
        raise ValueError("optimizer has parameters that are not of model: make it for this model")
    return groups  # type: ignore[return-value]


@with_params(TORCH[:1])
class TorchModel(HorovodModel):
    """A trained model of PyTorch as a transformer."""

    def __init__(self, **params: Any) -> None:
        super().__init__(defaults(TORCH[:1]), params)

    def _input_shapes(self) -> Sequence[Sequence[int | None] | None]:
        return self.getInputShapes() or [None] * len(self.getFeatureColumns())

    def _predictor(self) -> Callable[[], Callable[[list[numpy.ndarray]], list[numpy.ndarray]]]:
        model = self.getModel()

        def make() -> Callable[[list[numpy.ndarray]], list[numpy.ndarray]]:
            def predict(inputs: list[numpy.ndarray]) -> list[numpy.ndarray]:
                with torch.no_grad():
                    outputs = model(*map(torch.from_numpy, inputs))
                several = outputs if isinstance(outputs, list | tuple) else [outputs]
                return [output.numpy() for output in several]

            return predict

        return make
