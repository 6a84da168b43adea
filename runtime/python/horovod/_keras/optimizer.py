# SPDX-License-Identifier: Apache-2.0
"""Optimizers of Keras 3 and tf_keras that apply the gradients of all ranks.

A wrapped optimizer is of a subclass, made for it, that keeps the name and module of its base: what
is saved with a model names the base class, so any Keras reads it, with or without horovod.
"""

from __future__ import annotations

import sys
from typing import Any

from horovod._keras import compilation, kinds
from horovod._keras.copying import copied
from horovod._keras.distribution import Distribution
from horovod._keras.wrappers import (
    AgreeingLossScale,
    DistributedBase,
    DistributedKeras3,
    DistributedTfKeras,
    DistributedTfKerasLegacy,
)


def _wrapper_of(optimizer: Any) -> type[DistributedBase]:
    if kinds.is_keras_3(optimizer):
        backend = sys.modules["keras"].backend.backend()
        if backend not in ("tensorflow", "torch"):
            raise ImportError(
                f"DistributedOptimizer needs Keras on TensorFlow or PyTorch, but its backend is "
                f"{backend}: set KERAS_BACKEND=tensorflow or KERAS_BACKEND=torch"
            )
        return DistributedKeras3
    if kinds.is_tf_keras(optimizer):
        return DistributedTfKeras
    if kinds.is_tf_keras_legacy(optimizer):
        return DistributedTfKerasLegacy
    raise ValueError(
        f"DistributedOptimizer cannot wrap {optimizer!r}: give it an optimizer object of Keras, "
        f"such as keras.optimizers.SGD(0.01)"
    )


def is_distributed(optimizer: Any) -> bool:
    return isinstance(getattr(optimizer, "inner_optimizer", optimizer), DistributedBase)


def _subclass(optimizer: Any, wrapper: type, distribution: Distribution) -> type:
    base = type(optimizer)
    fields = {"__module__": base.__module__, "__doc__": base.__doc__}
    kind = type(base.__name__, (wrapper, base), fields)
    kind._hvd_distribution = distribution  # type: ignore[attr-defined]
    return kind


def agree_on_finite(optimizer: Any) -> None:
    """Makes the Keras 3 loss scale optimizer around a distributed optimizer agree with the other
    ranks. Any other optimizer is left alone."""
    if (
        kinds.is_keras_3_loss_scale(optimizer)
        and is_distributed(optimizer)
        and not isinstance(optimizer, AgreeingLossScale)
    ):
        distribution = optimizer.inner_optimizer._hvd_distribution
        optimizer.__class__ = _subclass(optimizer, AgreeingLossScale, distribution)


def distribute_in_place(optimizer: Any, distribution: Distribution) -> None:
    """Turns this very object into a distributed optimizer, with all its state."""
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is not None:
        distribute_in_place(inner, distribution)
        agree_on_finite(optimizer)
        return
    if is_distributed(optimizer):
        raise ValueError(
            f"{optimizer!r} is a DistributedOptimizer already: wrapped twice, its gradients would "
            f"be reduced twice"
        )
    optimizer.__class__ = _subclass(optimizer, _wrapper_of(optimizer), distribution)
    compilation.watch(type(optimizer))


def distributed(optimizer: Any, distribution: Distribution) -> Any:
    """A distributed optimizer with the settings and state of `optimizer`, which stays as it is."""
    _wrapper_of(optimizer)
    if is_distributed(optimizer):
        distribute_in_place(optimizer, distribution)  # says why not
    made = copied(optimizer)
    distribute_in_place(made, distribution)
    return made
