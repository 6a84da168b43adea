# SPDX-License-Identifier: Apache-2.0
"""The loss of a model with one or several outputs, and rows with weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]
LossFunction = Callable[[Tensors, Tensors, "torch.Tensor | None"], torch.Tensor]


def combined_loss(
    losses: Sequence[Callable[..., Any]], weights: Sequence[float] | None
) -> LossFunction:
    """A function of outputs, labels and the weights of rows, or None."""
    shares = weights or [1.0 / len(losses)] * len(losses)

    def loss(outputs: Tensors, labels: Tensors, row_weights: torch.Tensor | None) -> torch.Tensor:
        parts = [
            share * _one(function, output, label, row_weights)
            for function, share, output, label in zip(losses, shares, outputs, labels, strict=True)
        ]
        return torch.stack(parts).sum()

    return loss


def _one(
    function: Callable[..., Any],
    output: torch.Tensor,
    label: torch.Tensor,
    row_weights: torch.Tensor | None,
) -> torch.Tensor:
    if row_weights is None:
        return function(output, label)  # type: ignore[no-any-return]
    each = _for_each_row(function, output, label).reshape(len(row_weights), -1).mean(1)
    return (each * row_weights).sum() / row_weights.sum()


def _for_each_row(
    function: Callable[..., Any], output: torch.Tensor, label: torch.Tensor
) -> torch.Tensor:
    if isinstance(function, torch.nn.modules.loss._Loss):
        kept, function.reduction = function.reduction, "none"
        try:
            return function(output, label)  # type: ignore[no-any-return]
        finally:
            function.reduction = kept
    if "reduction" in inspect.signature(function).parameters:
        return function(output, label, reduction="none")  # type: ignore[no-any-return]
    raise ValueError(
        f"sample_weight_col needs the loss of each row, and {function} has no argument reduction"
    )


def like_outputs(outputs: Any, labels: Tensors) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Outputs as a list; labels of a regression in the shape of their output."""
    several = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    return several, [
        label.reshape(output.shape)
        if label.is_floating_point() and label.numel() == output.numel()
        else label
        for output, label in zip(several, labels, strict=True)
    ]
