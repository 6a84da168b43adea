# SPDX-License-Identifier: Apache-2.0
"""op=hvd.Adasum for TensorFlow 1 optimizers: each rank takes its own step, and Adasum combines what
the steps changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from horovod.tensorflow.gradient_reducer import GradientReducer


class DeltaV1Optimizer:
    """What a wrapped tf.compat.v1.train.Optimizer does differently. `_reducer` and `_passes` are
    set on the class made for it: the deltas of so many steps are combined at once."""

    _reducer: GradientReducer
    _passes: int

    def register_local_var(self, var: Any) -> None:
        """This variable stays each rank's own."""
        self._reducer.register_local(var)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        pairs = list(grads_and_vars)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        parent = super()
        if self._reducer.settings.size == 1 or not variables:
            return parent.apply_gradients(pairs, global_step, name)  # type: ignore[misc]
        steps = self._get_or_make_step_counter()
        starts = [self._zeros_slot(one, "delta_start", "Delta") for one in variables]  # type: ignore[attr-defined]
        is_first = tf.equal(tf.math.floormod(steps.read_value(), self._passes), 0)
        with tf.control_dependencies([_set_where(is_first, starts, variables)]):
            applied = parent.apply_gradients(pairs, global_step, name)  # type: ignore[misc]
        with tf.control_dependencies(_graph_only([applied])):
            count = steps.assign_add(1)
        with tf.control_dependencies(_graph_only([count])):
            is_last = tf.equal(tf.math.floormod(steps.read_value(), self._passes), 0)
            done = tf.cond(is_last, lambda: self._combine(starts, variables), _nothing)
        return done if tf.executing_eagerly() else tf.group(done)

    def _get_or_make_step_counter(self) -> tf.Variable:
        counter = getattr(self, "_hvd_steps", None)
        if counter is None:
            with tf.init_scope():
                local = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]
                counter = tf.compat.v1.Variable(
                    0, trainable=False, name="delta_steps", collections=local, use_resource=True
                )
            self._hvd_steps = counter
        return counter

    def _combine(self, starts: Sequence[Any], variables: Sequence[Any]) -> tf.Tensor:
        deltas = [
            variable.read_value() - start.read_value()
            for start, variable in zip(starts, variables, strict=True)
        ]
        combined = self._reducer.reduce(deltas, variables)
        done = [
            variable.assign(start.read_value() + delta)
            for start, variable, delta in zip(starts, variables, combined, strict=True)
        ]
        with tf.control_dependencies(_graph_only(done)):
            return tf.constant(True)


def _graph_only(results: Sequence[Any]) -> list[Any]:
    return [] if tf.executing_eagerly() else [one for one in results if one is not None]


def _nothing() -> tf.Tensor:
    return tf.constant(False)


def _set_where(condition: tf.Tensor, targets: Sequence[Any], sources: Sequence[Any]) -> Any:
    def copy() -> tf.Tensor:
        done = [own.assign(one.read_value()) for own, one in zip(targets, sources, strict=True)]
        with tf.control_dependencies(_graph_only(done)):
            return tf.constant(True)

    return tf.cond(condition, copy, _nothing)
