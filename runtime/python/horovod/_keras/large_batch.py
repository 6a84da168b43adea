# SPDX-License-Identifier: Apache-2.0
"""LARS, LAMB and RAdam for the program's Keras: Keras 3, or tf_keras as one of its legacy
optimizers, which also work in a graph of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horovod._keras.chosen import keras_module
from horovod._keras.update_rules import Lamb, Lars, Ramp, RectifiedAdam

_keras = keras_module()
_is_keras_3 = _keras.__name__ == "keras"


class _Keras3(_keras.optimizers.Optimizer if _is_keras_3 else object):  # type: ignore[misc]
    """Keras 3 asks for the step of one variable. Subclasses have `_rule_slots` and `_step`."""

    def build(self, variables: Sequence[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        for slot in self._rule_slots:
            made = [self.add_variable_from_reference(one, name=slot) for one in variables]
            setattr(self, f"{slot}s", made)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        ops = _keras.ops
        place = self._get_variable_index(variable)
        known = self._trainable_variables[place]  # with TensorFlow, `variable` is what is inside
        slots = [getattr(self, f"{slot}s")[place] for slot in self._rule_slots]
        value, slot_values = self._step(
            ops,
            ops.convert_to_tensor(variable),
            ops.convert_to_tensor(gradient, variable.dtype),
            [ops.convert_to_tensor(slot) for slot in slots],
            ops.cast(learning_rate, variable.dtype),
            self._is_adapted(known.path) and self._use_weight_decay(known),
            ops.cast(self.iterations, "float64") + 1,
        )
        self.assign(variable, value)
        for slot, slot_value in zip(slots, slot_values, strict=True):
            self.assign(slot, slot_value)


class _TensorFlow:
    """The functions that update_rules takes from keras.ops."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.cast, self.sum = tf.cast, tf.reduce_sum
        self.sqrt, self.square, self.where = tf.sqrt, tf.square, tf.where
        self.maximum, self.minimum, self.ones_like = tf.maximum, tf.minimum, tf.ones_like


class _TfKeras(object if _is_keras_3 else _keras.optimizers.legacy.Optimizer):  # type: ignore[misc]
    """The same for tf_keras.optimizers.legacy."""

    _HAS_AGGREGATE_GRAD = True

    def __init__(self, learning_rate: Any, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
        self._set_hyper("decay", self._initial_decay)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            for slot in self._rule_slots:
                self.add_slot(variable, slot)

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: Any = None) -> Any:
        import tensorflow as tf

        slots = [self.get_slot(var, slot) for slot in self._rule_slots]
        value, slot_values = self._step(
            _TensorFlow(),
            var.read_value(),
            grad,
            [slot.read_value() for slot in slots],
            self._decayed_lr(var.dtype.base_dtype),
            self._is_adapted(var.name),
            tf.cast(self.iterations, tf.float64) + 1,
        )
        assigned = [slot.assign(one) for slot, one in zip(slots, slot_values, strict=True)]
        return tf.group(var.assign(value), *assigned)

    def _resource_apply_sparse(
        self, grad: Any, var: Any, indices: Any, apply_state: Any = None
    ) -> Any:
        import tensorflow as tf

        # The norms are those of the whole variable.
        rows = tf.IndexedSlices(grad, indices, tf.shape(var))
        return self._resource_apply_dense(tf.convert_to_tensor(rows), var)

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().get_config()
        settings = {
            name: self._serialize_hyperparameter(name) for name in ("learning_rate", "decay")
        }
        return {**config, **settings}


_Base: Any = _Keras3 if _is_keras_3 else _TfKeras


class _Optimizer(_Base):
    """What the three share: the spelling `lr`, and the settings in the config."""

    _rule: Any
    _skip_list: tuple[str, ...] = ()

    def __init__(self, learning_rate: Any, name: str, kwargs: dict[str, Any]) -> None:
        super().__init__(learning_rate=kwargs.pop("lr", learning_rate), name=name, **kwargs)

    def _is_adapted(self, name: str) -> bool:
        return not any(part in name for part in self._skip_list)

    def _settings(self) -> dict[str, Any]:
        return self._rule._asdict()  # type: ignore[no-any-return]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._settings()}


class LARS(_Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017), for large batches.

    Each variable has its own rate: `learning_rate * eeta * |w| / (|g| + weight_decay * |w| +
    epsilon)`. Variables with a part of `skip_list` in their name, such as ["bias", "gamma",
    "beta"], get neither this factor nor the weight decay. `lr` is the same as `learning_rate`.
    """

    _rule_slots = ("momentum",)

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        nesterov: bool = False,
        skip_list: Sequence[str] | None = None,
        name: str = "LARS",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, kwargs)
        self._rule = Lars(momentum, weight_decay, eeta, epsilon, nesterov)
        self._skip_list = tuple(skip_list or ())
        self.momentum = momentum  # for callbacks that correct it

    def _step(
        self, math: Any, w: Any, g: Any, slots: list[Any], lr: Any, is_adapted: bool, t: Any
    ) -> Any:
        return self._rule.step(math, w, g, slots, lr, is_adapted)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "skip_list": list(self._skip_list)}


class LAMB(_Optimizer):
    """Layer-wise adaptive moments (You et al. 2020), for large batches: Adam, whose step and weight
    decay are scaled to the norm of each variable. `skip_list` and `lr` are as in LARS."""

    _rule_slots = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0.0,
        skip_list: Sequence[str] | None = None,
        name: str = "LAMB",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, kwargs)
        self._rule = Lamb(beta_1, beta_2, epsilon, weight_decay)
        self._skip_list = tuple(skip_list or ())

    def _step(
        self, math: Any, w: Any, g: Any, slots: list[Any], lr: Any, is_adapted: bool, t: Any
    ) -> Any:
        return self._rule.step(math, w, g, slots, lr, is_adapted, t)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "skip_list": list(self._skip_list)}


class RAdam(_Optimizer):
    """Rectified Adam (Liu et al. 2019).

    With `total_steps` the rate rises from 0 to `learning_rate` during the first
    `warmup_proportion` of them, and then falls to `min_lr`. A step is rectified where the length
    of the moving average is above `sma_threshold`: 4 in the paper, 5 in other implementations.
    `lr` is the same as `learning_rate`; the weight decay is decoupled.
    """

    _rule_slots = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        weight_decay: float = 0.0,
        sma_threshold: float = 4.0,
        total_steps: int = 0,
        warmup_proportion: float = 0.1,
        min_lr: float = 0.0,
        name: str = "RAdam",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, kwargs)
        self._rule = RectifiedAdam(beta_1, beta_2, epsilon, weight_decay, sma_threshold)
        self._ramp = Ramp(total_steps, warmup_proportion, min_lr)

    def _step(
        self, math: Any, w: Any, g: Any, slots: list[Any], lr: Any, is_adapted: bool, t: Any
    ) -> Any:
        return self._rule.step(math, w, g, slots, self._ramp.rate(math, lr, t), t)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), **self._ramp._asdict()}


for _kind in (LARS, LAMB, RAdam):
    _kind.__module__ = "horovod.keras.optimizers"  # where a saved model looks for it
