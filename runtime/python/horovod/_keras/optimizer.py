# SPDX-License-Identifier: Apache-2.0
"""Optimizers of Keras 3 and tf_keras that apply the gradients of all ranks.

A wrapped optimizer is of a subclass, made for it, that keeps the name and module of its base: what
is saved with a model names the base class, so any Keras reads it, with or without horovod.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod._keras import compilation
from horovod.common.basics import Min, basics, reduce_op
from horovod.tensorflow import ops
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregation
from horovod.tensorflow.gradient_reducer import Gradient, GradientReducer, ReducerSettings
from horovod.tensorflow.util import as_it_is, native_variable

_AND = reduce_op(Min)  # of booleans


class Distribution:
    """How one optimizer works on the gradients of all ranks; the answer to _hvd_distribution."""

    def __init__(self, settings: ReducerSettings, passes: int, average_passes: bool) -> None:
        if passes < 1:
            raise ValueError(f"backward_passes_per_step={passes}: it must be positive")
        self.reducer = GradientReducer(settings)
        self.passes = passes
        self.average_passes = average_passes

    def on_every_rank(self, own: tf.Tensor) -> tf.Tensor:
        """True where `own` is true on all ranks."""
        if basics.size() == 1:
            return own
        name = f"{self.reducer.name}_finite"
        return ops.allreduce(tf.cast(own, tf.bool), ops.Call(wire_name=name, reduce_op=_AND))

    def make_aggregation(self) -> LocalGradientAggregation | None:
        if self.passes == 1:
            return None
        return LocalGradientAggregation(self.passes, self.average_passes)


class DistributedBase:
    """What all wrapped optimizers have. `_hvd_distribution` is set on the class made for each."""

    _hvd_distribution: Distribution
    _hvd_aggregation: LocalGradientAggregation | None = None

    @property
    def _agg_helper(self) -> LocalGradientAggregation | None:
        """The original's name for what sums several backward passes."""
        if self._hvd_aggregation is None:
            self._hvd_aggregation = self._hvd_distribution.make_aggregation()
        return self._hvd_aggregation

    def _hvd_reduce(
        self, gradients: Sequence[Gradient], variables: Sequence[Any]
    ) -> list[Gradient]:
        return self._hvd_distribution.reducer.reduce(gradients, variables)


class DistributedKeras3(DistributedBase):
    """For keras.optimizers.Optimizer of Keras 3."""

    @as_it_is
    def apply(self, grads: Sequence[Gradient], trainable_variables: Any = None) -> Any:
        parent = super()
        gradients = list(grads)
        if not gradients:
            return parent.apply(gradients, trainable_variables)  # type: ignore[misc]
        variables = (
            self._trainable_variables  # type: ignore[attr-defined]
            if trainable_variables is None
            else list(trainable_variables)
        )
        aggregation = self._agg_helper
        if aggregation is None:
            return parent.apply(self._hvd_reduce(gradients, variables), trainable_variables)  # type: ignore[misc]
        if not self.built:  # type: ignore[has-type]
            with tf.name_scope(self.name), tf.init_scope():  # type: ignore[attr-defined]
                self.build(variables)  # type: ignore[attr-defined]
            self.built = True

        def flush(totals: list[Gradient]) -> None:
            parent.apply(self._hvd_reduce(totals, variables), trainable_variables)  # type: ignore[misc]

        aggregation.add(gradients, variables, flush, lambda: self._iterations.assign_add(1))  # type: ignore[attr-defined]
        return None


class AgreeingLossScale:
    """For LossScaleOptimizer of Keras 3, around a distributed optimizer: the ranks agree on whether
    the gradients are finite, since the decision to skip the step is taken before they are reduced.
    """

    _hvd_distribution: Distribution

    @as_it_is
    def check_finite(self, grads: Sequence[Gradient]) -> tf.Tensor:
        return self._hvd_distribution.on_every_rank(super().check_finite(grads))  # type: ignore[misc]

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        made = super().from_config(config, custom_objects=custom_objects)  # type: ignore[misc]
        if not is_distributed(made):
            distribute_in_place(made, cls._hvd_distribution)
        return made


class _TfKeras(DistributedBase):
    """For tf_keras. There the gradients are reduced before the loss scale optimizer looks at them:
    an infinity of one rank is in the sum of all."""

    def _hvd_aggregate(self, grads_and_vars: Any) -> list[tuple[Gradient, Any]]:
        """What stands in for tf_keras' own reduction over replicas."""
        gradients, variables = _unzip(grads_and_vars)
        if self._agg_helper is None:
            gradients = self._hvd_reduce(gradients, variables)
        elif basics.size() > 1:
            gradients = self._hvd_poisoned(gradients)
        return list(zip(gradients, variables, strict=True))

    def _hvd_poisoned(self, gradients: list[Gradient]) -> list[Gradient]:
        """The gradients, the first made infinite where any is not finite on any rank: the ranks
        then decide alike whether to skip a pass that they do not reduce yet."""
        present = [i for i, one in enumerate(gradients) if one is not None]
        if not present:
            return gradients
        values = [tf.convert_to_tensor(gradients[i]) for i in present]
        own = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values])
        all_finite = self._hvd_distribution.on_every_rank(own)
        infinite = tf.constant(float("inf"), values[0].dtype)
        results = list(gradients)
        results[present[0]] = tf.where(all_finite, values[0], infinite)
        return results

    def _hvd_apply(
        self, apply: Callable[[Any], Any], grads_and_vars: Any, is_aggregated: bool
    ) -> Any:
        aggregation = self._agg_helper
        if aggregation is None:
            return apply(grads_and_vars if is_aggregated else self._hvd_aggregate(grads_and_vars))
        gradients, variables = _unzip(grads_and_vars)

        def flush(totals: list[Gradient]) -> None:
            apply(list(zip(self._hvd_reduce(totals, variables), variables, strict=True)))

        aggregation.add(gradients, variables, flush, lambda: self.iterations.assign_add(1))  # type: ignore[attr-defined]
        return self.iterations  # type: ignore[attr-defined]


class DistributedTfKeras(_TfKeras):
    """For tf_keras.optimizers.Optimizer."""

    @as_it_is
    def aggregate_gradients(self, grads_and_vars: Any) -> list[tuple[Gradient, Any]]:
        return self._hvd_aggregate(grads_and_vars)

    @as_it_is
    def apply_gradients(
        self,
        grads_and_vars: Any,
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        parent = super()
        return self._hvd_apply(
            lambda pairs: parent.apply_gradients(  # type: ignore[misc]
                pairs, name=name, skip_gradients_aggregation=True
            ),
            grads_and_vars,
            skip_gradients_aggregation or not experimental_aggregate_gradients,
        )


class DistributedTfKerasLegacy(_TfKeras):
    """For tf_keras.optimizers.legacy.Optimizer."""

    @as_it_is
    def _aggregate_gradients(self, grads_and_vars: Any) -> list[tuple[Gradient, Any]]:
        return self._hvd_aggregate(grads_and_vars)

    @as_it_is
    def apply_gradients(
        self,
        grads_and_vars: Any,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        parent = super()
        return self._hvd_apply(
            lambda pairs: parent.apply_gradients(  # type: ignore[misc]
                pairs, name=name, experimental_aggregate_gradients=False
            ),
            grads_and_vars,
            not experimental_aggregate_gradients,
        )


def _unzip(grads_and_vars: Any) -> tuple[list[Gradient], list[Any]]:
    pairs = list(grads_and_vars)
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]


def _is_instance_of(optimizer: Any, module: str, *path: str) -> bool:
    """isinstance without importing a Keras that the program does not use."""
    kind: Any = sys.modules.get(module)
    for step in path:
        kind = getattr(kind, step, None)
    return isinstance(kind, type) and isinstance(optimizer, kind)


def _is_keras_3(optimizer: Any) -> bool:
    return _is_instance_of(optimizer, "keras", "optimizers", "Optimizer")


def _wrapper_of(optimizer: Any) -> type[DistributedBase]:
    if _is_keras_3(optimizer):
        backend = sys.modules["keras"].backend.backend()
        if backend != "tensorflow":
            raise ImportError(
                f"DistributedOptimizer needs Keras on TensorFlow, but its backend is {backend}: "
                f"set KERAS_BACKEND=tensorflow"
            )
        return DistributedKeras3
    if _is_instance_of(optimizer, "tf_keras", "optimizers", "Optimizer"):
        return DistributedTfKeras
    if _is_instance_of(optimizer, "tf_keras", "optimizers", "legacy", "Optimizer"):
        return DistributedTfKerasLegacy
    raise ValueError(
        f"DistributedOptimizer cannot wrap {optimizer!r}: give it an optimizer object of Keras, "
        f"such as keras.optimizers.SGD(0.01)"
    )


def is_distributed(optimizer: Any) -> bool:
    return isinstance(getattr(optimizer, "inner_optimizer", optimizer), DistributedBase)


def _distributed_class(optimizer: Any, distribution: Distribution) -> type:
    base = type(optimizer)
    fields = {"__module__": base.__module__, "__doc__": base.__doc__}
    kind = type(base.__name__, (_wrapper_of(optimizer), base), fields)
    kind._hvd_distribution = distribution
    return kind


def _agreeing_class(optimizer: Any) -> type:
    base = type(optimizer)
    fields = {"__module__": base.__module__, "__doc__": base.__doc__}
    kind = type(base.__name__, (AgreeingLossScale, base), fields)
    kind._hvd_distribution = optimizer.inner_optimizer._hvd_distribution
    return kind


def agree_on_finite(optimizer: Any) -> None:
    """Makes the Keras 3 loss scale optimizer around a distributed optimizer agree with the other
    ranks. Any other optimizer is left alone."""
    if (
        _is_instance_of(optimizer, "keras", "optimizers", "LossScaleOptimizer")
        and is_distributed(optimizer)
        and not isinstance(optimizer, AgreeingLossScale)
    ):
        optimizer.__class__ = _agreeing_class(optimizer)


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
    optimizer.__class__ = _distributed_class(optimizer, distribution)
    compilation.watch(type(optimizer))


def _scheduled_rate(optimizer: Any) -> Any:
    """The function or schedule that its learning rate comes from; None where it is a number."""
    fields = vars(optimizer)
    rate = fields.get("_learning_rate", fields.get("_hyper", {}).get("learning_rate"))
    return rate if callable(rate) and not hasattr(rate, "assign") else None


def _config_of(optimizer: Any) -> dict[str, Any]:
    """Its config without the schedule and the inner optimizer: not all that a program has made can
    be written down in a config, and be made from it again."""
    plain = object.__new__(type(optimizer))
    fields = vars(plain)
    fields.update(vars(optimizer))
    if _scheduled_rate(optimizer) is not None:
        if "_hyper" in fields:
            fields["_hyper"] = {**fields["_hyper"], "learning_rate": 0.0}
        else:
            fields["_learning_rate"] = 0.0
    if "inner_optimizer" in fields:
        fields["inner_optimizer"] = None
    config: dict[str, Any] = plain.get_config()
    return config


def _made_like(optimizer: Any) -> Any:
    """A new optimizer of the same class and settings."""
    kind = type(optimizer)
    config = _config_of(optimizer)
    if "inner_optimizer" in vars(optimizer):
        del config["inner_optimizer"]
        return kind(_copied(optimizer.inner_optimizer), **config)
    made = kind.from_config(config)
    rate = _scheduled_rate(optimizer)
    if rate is not None and hasattr(made, "_build_learning_rate"):  # tf_keras, but not its legacy
        made._learning_rate = made._build_learning_rate(rate)
    elif rate is not None:
        made.learning_rate = rate
    for name, value in vars(optimizer).items():
        # What a class of one's own has and what methods set is in no config.
        is_setting = not name.startswith("_") or name.startswith("_exclude_from_weight_decay")
        if is_setting and name != "built" and not _has_variables(value):
            setattr(made, name, value)
    return made


def _has_variables(value: Any) -> bool:
    if isinstance(value, (dict, list, tuple)):
        return any(map(_has_variables, value.values() if isinstance(value, dict) else value))
    return isinstance(native_variable(value), tf.Variable)


def _copied(optimizer: Any) -> Any:
    """A new optimizer of the same class, settings and state."""
    copied = _made_like(optimizer)
    variables = _variables_of(optimizer)
    if len(variables) > len(_variables_of(copied)):  # it was used
        if not _is_keras_3(optimizer):  # it does not know for which variables: the state is shared
            return copy.copy(optimizer)
        copied.build(optimizer._trainable_variables)
    for new, old in zip(_variables_of(copied), variables, strict=True):
        new.assign(old)
    return copied


def _variables_of(optimizer: Any) -> list[Any]:
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def distributed(optimizer: Any, distribution: Distribution) -> Any:
    """A distributed optimizer with the settings and state of `optimizer`, which stays as it is."""
    _wrapper_of(optimizer)
    if is_distributed(optimizer):
        distribute_in_place(optimizer, distribution)  # says why not
    copied = _copied(optimizer)
    distribute_in_place(copied, distribution)
    return copied
