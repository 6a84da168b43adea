# SPDX-License-Identifier: Apache-2.0
"""The training of a PyTorch model in a rank."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

import horovod.torch as hvd
from horovod.spark.common.data import batches, read_rows, shaped
from horovod.spark.common.estimator import TrainingData
from horovod.spark.torch.losses import LossFunction, combined_loss, like_outputs

CHECKPOINT = "checkpoint.pt"
Epoch = dict[str, Any]


@dataclass(frozen=True)
class TorchTraining:
    """Travels to the ranks."""

    model: torch.nn.Module
    optimizer_class: type[torch.optim.Optimizer]
    optimizer_state: dict[str, Any]
    optimizer_groups: Sequence[Sequence[str]]  # names of parameters
    values: dict[str, Any]  # of the estimator's parameters
    data: TrainingData
    checkpoint: str  # path in the store


def train(task: TorchTraining) -> tuple[list[Epoch], dict[str, Any]] | None:
    """History and the model's state, from rank 0."""
    hvd.init()
    values, model = task.values, task.model
    if values["random_seed"] is not None:
        torch.manual_seed(values["random_seed"])
    has_gpu = values["use_gpu"] and torch.cuda.is_available()
    device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count()) if has_gpu else None
    model.to(device or "cpu")
    named = dict(model.named_parameters())
    groups = [{"params": [named[name] for name in group]} for group in task.optimizer_groups]
    # The state brings the settings; lr is only what the constructor asks for.
    optimizer = task.optimizer_class(groups, lr=1.0)  # type: ignore[call-arg]
    optimizer.load_state_dict(task.optimizer_state)
    if task.data.store.exists(task.checkpoint):
        _restore(model, optimizer, task.data.store.read(task.checkpoint))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = values["gradient_compression"]
    distributed = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        **({"compression": compression} if compression else {}),
    )
    epochs = _Epochs(task, model, distributed, device)
    history = []
    for epoch in range(values["epochs"]):
        entry: Epoch = {"epoch": epoch, "train": epochs.train(epoch)}
        if task.data.validation_path is not None:
            entry["validation"] = epochs.validate()
        history.append(entry)
        if hvd.rank() == 0:
            _save(task, model, optimizer)
            if values["verbose"]:
                print(entry, flush=True)
        for callback in values["callbacks"]:
            callback.on_epoch_end(epoch, entry)
    is_first = hvd.rank() == 0
    hvd.shutdown()
    if not is_first:
        return None
    return history, {name: one.cpu() for name, one in model.state_dict().items()}


class _Epochs:
    """The rows of a rank, and what an epoch does with them."""

    def __init__(
        self, task: TorchTraining, model: torch.nn.Module, optimizer: Any, device: Any
    ) -> None:
        values = task.values
        self._values = values
        self._model = model
        self._optimizer = optimizer
        self._device = device
        losses = [make() for make in _list(values["loss_constructors"])] or _list(values["loss"])
        self._loss = combined_loss(losses, values["loss_weights"])
        data = task.data
        self._train_rows = self._read(data, data.train_path, data.train_rows)
        self._validation_rows = (
            self._read(data, data.validation_path, data.validation_rows)
            if data.validation_path is not None
            else []
        )
        self._random = numpy.random.default_rng((values["random_seed"] or 0) + hvd.rank())

    def _read(self, data: TrainingData, path: str, options: Any) -> list[Any]:
        """Inputs, labels and weights as three lists of tensors."""
        arrays = read_rows(data.store, path, hvd.rank(), hvd.size(), options)
        values = self._values
        weight = values["sample_weight_col"]
        groups = (
            (values["feature_cols"], values["input_shapes"]),
            (values["label_cols"], values["label_shapes"]),
            ([weight] if weight else [], None),
        )
        return [
            [
                torch.from_numpy(numpy.require(shaped(arrays[name], shape), requirements="CW"))
                for name, shape in zip(names, shapes or [None] * len(names), strict=True)
            ]
            for names, shapes in groups
        ]

    def _steps(
        self, groups: list[Any], batch_size: int, most: int | None, order: Any
    ) -> Iterator[Any]:
        for rows in batches(len(order), batch_size, most, order):
            picked = torch.from_numpy(rows)
            yield [[one[picked].to(self._device or "cpu") for one in group] for group in groups]

    def train(self, epoch: int) -> dict[str, float]:
        values = self._values
        order = numpy.arange(len(self._train_rows[0][0]))
        if values["shuffle"] and values["shuffle_buffer_size"] != 0:
            self._random.shuffle(order)
        self._model.train()
        take_step = values["train_minibatch_fn"] or _train_minibatch
        sums = _Sums(values["metrics"])
        steps = self._steps(
            self._train_rows, values["batch_size"], values["train_steps_per_epoch"], order
        )
        for inputs, labels, weights in steps:
            outputs, loss = take_step(
                self._model,
                self._optimizer,
                like_outputs,
                self._loss,
                inputs,
                labels,
                weights[0] if weights else None,
            )
            sums.add(outputs, labels, loss)
        return sums.means("train")

    def validate(self) -> dict[str, float]:
        values = self._values
        self._model.eval()
        sums = _Sums(values["metrics"])
        order = numpy.arange(len(self._validation_rows[0][0]))
        size = values["val_batch_size"] or values["batch_size"]
        steps = self._steps(
            self._validation_rows, size, values["validation_steps_per_epoch"], order
        )
        with torch.no_grad():
            for inputs, labels, weights in steps:
                outputs, fitting = like_outputs(self._model(*inputs), labels)
                loss = self._loss(outputs, fitting, weights[0] if weights else None)
                sums.add(outputs, fitting, loss)
        return sums.means("validation")


def _train_minibatch(
    model: torch.nn.Module,
    optimizer: Any,
    transform_outputs: Any,
    loss_fn: LossFunction,
    inputs: Sequence[torch.Tensor],
    labels: Sequence[torch.Tensor],
    sample_weights: torch.Tensor | None,
) -> tuple[Any, torch.Tensor]:
    """One step; a program's own has the same arguments and results."""
    optimizer.zero_grad()
    outputs, fitting = transform_outputs(model(*inputs), labels)
    loss = loss_fn(outputs, fitting, sample_weights)
    loss.backward()
    optimizer.step()
    return outputs, loss


class _Sums:
    """Loss and metrics of an epoch; `means` is over all ranks."""

    def __init__(self, metrics: Sequence[Any]) -> None:
        self._metrics = metrics
        self._steps = 0
        self._sums: dict[str, float] = {}

    def add(self, outputs: Any, labels: Sequence[torch.Tensor], loss: torch.Tensor) -> None:
        self._steps += 1
        found = {"loss": float(loss.detach())}
        outputs, labels = like_outputs(outputs, labels)
        for metric in self._metrics:
            name = getattr(metric, "__name__", type(metric).__name__)
            for i, (output, label) in enumerate(zip(outputs, labels, strict=True)):
                key = name if len(outputs) == 1 else f"{name}_{i}"
                found[key] = float(metric(output.detach(), label))
        for key, value in found.items():
            self._sums[key] = self._sums.get(key, 0.0) + value

    def means(self, name: str) -> dict[str, float]:
        own = torch.tensor([value / self._steps for value in self._sums.values()])
        mean = hvd.allreduce(own, name=f"metrics.{name}", op=hvd.Average)
        return dict(zip(self._sums, mean.tolist(), strict=True))


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _save(task: TorchTraining, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    content = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, content)
    task.data.store.write(task.checkpoint, content.getvalue())


def _restore(model: torch.nn.Module, optimizer: torch.optim.Optimizer, content: bytes) -> None:
    """The last checkpoint of a run with the same name."""
    state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
