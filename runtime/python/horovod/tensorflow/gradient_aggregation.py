# SPDX-License-Identifier: Apache-2.0
"""Gradients summed on this rank over several backward passes, and reduced after the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from horovod.tensorflow.gradient_reducer import Gradient
from horovod.tensorflow.util import native_variable


class LocalGradientAggregation:
    """The sums, and how many passes are in them. Works in eager code and in graphs, whose
    variables are made outside of them."""

    def __init__(self, passes: int, average: bool) -> None:
        self.passes = passes
        self.average = average
        with tf.init_scope():
            self.counter = tf.Variable(0, dtype=tf.int32, trainable=False, name="aggregated_passes")
        self._sums: dict[Any, tf.Variable] = {}

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the sums of variables that have none yet."""
        with tf.init_scope():
            for own in map(native_variable, variables):
                if own.ref() not in self._sums:
                    self._sums[own.ref()] = tf.Variable(
                        tf.zeros(own.shape, own.dtype), trainable=False, name="aggregated_gradient"
                    )

    def add(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[Any],
        flush: Callable[[list[Gradient]], Any],
        skip: Callable[[], Any],
    ) -> None:
        """Adds one pass. After the last of `passes` calls `flush` with the sums (or their averages)
        and starts again at zero; calls `skip` otherwise."""
        self.build(variables)
        sums = [self._sums[native_variable(one).ref()] for one in variables]
        known = [place for place, one in enumerate(gradients) if one is not None]
        for place in known:
            sums[place].assign_add(tf.convert_to_tensor(gradients[place]))
        self.counter.assign_add(1)

        def last_pass() -> tf.Tensor:
            scale = 1.0 / self.passes if self.average else 1.0
            totals: list[Gradient] = [None] * len(sums)
            for place in known:
                value = sums[place].read_value()
                totals[place] = value if scale == 1.0 else value * tf.cast(scale, value.dtype)
            flush(totals)
            for place in known:
                sums[place].assign(tf.zeros_like(sums[place]))
            self.counter.assign(0)
            return tf.constant(True)

        def other_pass() -> tf.Tensor:
            skip()
            return tf.constant(False)

        tf.cond(tf.equal(self.counter, self.passes), last_pass, other_pass)
