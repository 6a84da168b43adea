# SPDX-License-Identifier: Apache-2.0
"""Gradients summed on this rank over several backward passes, and reduced after the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.gradient_reducer import Gradient, scaled
from horovod.tensorflow.util import as_it_is, key_of, native_variable

__all__ = ["LocalGradientAggregationHelper"]

Reduce = Callable[[Sequence[Gradient], Sequence[Any]], Sequence[Gradient]]


class PassSums:
    """The sums, and how many passes are in them: `compute_gradients` adds a pass, and reduces after
    the last; `apply_gradients` applies what was reduced, and only counts a step otherwise. Works in
    eager code, in tf.function and in TensorFlow 1 graphs, in which the variables are local ones.
    """

    def __init__(
        self, backward_passes_per_step: int, allreduce_func: Reduce, average: bool, where: str = ""
    ) -> None:
        if backward_passes_per_step <= 0:
            raise ValueError(
                f"backward_passes_per_step={backward_passes_per_step}: it must be positive"
            )
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average
        self.counter: tf.Variable | None = None
        self._allreduce = allreduce_func
        self._where = where
        self._sums: dict[Any, tf.Variable] = {}
        self._local_vars: set[Any] = set()
        self._local_factor = 1.0

    def _make_variable(self, value: Any, name: str) -> tf.Variable:
        with tf.init_scope():
            if tf.executing_eagerly():
                return tf.Variable(value, trainable=False, name=name)
            local = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]
            return tf.compat.v1.Variable(
                value, trainable=False, name=name, collections=local, use_resource=True
            )

    def _make_counter(self) -> tf.Variable:
        if self.counter is None:
            self.counter = self._make_variable(0, f"aggregation_counter{self._where}")
        return self.counter

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the counter, and the sums of variables that have none yet."""
        self._make_counter()
        for own in map(native_variable, variables):
            if own.ref() not in self._sums:
                with tf.init_scope():
                    zeros = tf.zeros(own.shape, own.dtype.base_dtype)
                    sums = self._make_variable(zeros, f"aggregated_gradient{self._where}")
                self._sums[own.ref()] = sums

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable is summed as well, but not reduced."""
        self._local_vars.add(key_of(var))

    @as_it_is
    def compute_gradients(self, grads: Sequence[Gradient], vars: Sequence[Any]) -> list[Gradient]:
        """Adds one pass. The reduced sums, or their averages, after the last of them, from which on
        it starts again at zero; the gradients as they are otherwise. IndexedSlices become dense.
        """
        known = [i for i, one in enumerate(grads) if one is not None]
        values = [tf.convert_to_tensor(grads[i]) for i in known]
        owners = [vars[i] for i in known]
        self.build(owners)
        sums = [self._sums[key_of(one)] for one in owners]
        counter = self._make_counter()
        added = [own.assign_add(value) for own, value in zip(sums, values, strict=True)]
        with tf.control_dependencies([*added, counter.assign_add(1)]):
            is_last = tf.equal(counter.read_value(), self.backward_passes_per_step)
            reduced = tf.cond(
                is_last, lambda: self._flush(sums, owners, values), lambda: list(values)
            )
        results: list[Gradient] = [None] * len(grads)
        for i, value in zip(known, reduced, strict=True):
            results[i] = value
        return results

    def _flush(
        self, sums: list[tf.Variable], owners: list[Any], values: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        divisor = self.backward_passes_per_step if self.average_aggregated_gradients else 1
        totals = [own.read_value() for own in sums]
        if divisor != 1:
            totals = [scaled(total, 1.0 / divisor) for total in totals]
        reduced = self._reduce(totals, owners)
        with tf.control_dependencies(totals):
            done = [own.assign(tf.zeros_like(own)) for own in sums]
            done.append(self._make_counter().assign(0))
        with tf.control_dependencies(done):
            return [
                tf.ensure_shape(tf.identity(one), value.shape)
                for one, value in zip(reduced, values, strict=True)
            ]

    def _reduce(self, totals: list[Gradient], owners: list[Any]) -> list[Gradient]:
        results = list(totals)
        own = {i for i, one in enumerate(owners) if key_of(one) in self._local_vars}
        for i in own:
            results[i] = scaled(results[i], self._local_factor)
        shared = [i for i in range(len(owners)) if i not in own]
        reduced = self._allreduce([totals[i] for i in shared], [owners[i] for i in shared])
        for i, value in zip(shared, reduced, strict=True):
            results[i] = value
        return results

    @as_it_is
    def apply_gradients(
        self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Calls the closure where the last `compute_gradients` reduced, and counts a step where it
        did not. `args` begins with the pairs that the closure applies."""
        pairs = list(args[0]) if args else []
        wait_for = [one for pair in pairs for one in pair[:1] if one is not None]

        def apply() -> tf.Tensor:
            return _done(apply_grads_closure())

        def skip() -> tf.Tensor:
            return _done(self._count_step(optimizer, kwargs))

        with tf.control_dependencies(wait_for):
            is_flushed = tf.equal(self._make_counter().read_value(), 0)
            return tf.cond(is_flushed, apply, skip)

    def _count_step(self, optimizer: Any, kwargs: dict[str, Any]) -> Any:
        return optimizer.iterations.assign_add(1)


def _done(result: Any) -> tf.Tensor:
    """Something that a conditional can return, for anything that an optimizer returns."""
    is_graph = result is not None and not tf.executing_eagerly()
    with tf.control_dependencies([result] if is_graph else []):
        return tf.constant(True)


class LocalGradientAggregationHelper(PassSums):
    """The original's class for TensorFlow 1 optimizers and those of Keras."""

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Reduce,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        rank: int,
        optimizer_type: str,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        where = f"_{name}_{rank}" if name else f"_{rank}"
        super().__init__(
            backward_passes_per_step, allreduce_func, average_aggregated_gradients, where
        )
        self.sparse_as_dense = sparse_as_dense  # what is summed is dense in any case
        self.rank = rank
        self.optimizer_type = optimizer_type
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self._local_factor = local_factor(process_set, scale_local_gradients)

    def _count_step(self, optimizer: Any, kwargs: dict[str, Any]) -> Any:
        if self.optimizer_type == self._OPTIMIZER_TYPE_KERAS:
            return super()._count_step(optimizer, kwargs)
        global_step = kwargs.get("global_step")
        return None if global_step is None else global_step.assign_add(1)


def local_factor(process_set: ProcessSet, scale_local_gradients: bool) -> float:
    """By what the gradients of local variables are multiplied."""
    return 1.0 / (process_set.size() or 1) if scale_local_gradients else 1.0
