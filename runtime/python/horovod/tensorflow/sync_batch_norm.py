# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks.

The layer is of the Keras that the program uses, imported when the layer is first asked for.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from horovod.common.basics import Sum, basics
from horovod.tensorflow.collectives import allreduce


def _sum(tensor: tf.Tensor) -> tf.Tensor:
    # Outside of the scope of the layer: Keras numbers scopes by all models that this process has
    # made, and one rank may have made more than others.
    with tf.name_scope(""):
        return allreduce(tensor, op=Sum, name="SyncBatchNormalization")


def _joined_moments(
    inputs: tf.Tensor, axes: list[int], weights: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance over the batches of all ranks, which may differ in size. The second sum is
    taken around the mean of all: a mean of squares would lose the digits that a small variance
    needs."""
    if weights is None:
        own_count = tf.size(inputs) // tf.math.maximum(_channels(inputs, axes), 1)
        count = tf.cast(own_count, inputs.dtype)
        own_sum = tf.reduce_sum(inputs, axes, keepdims=True)
    else:
        weights = tf.broadcast_to(tf.cast(weights, inputs.dtype), tf.shape(inputs))
        count = tf.reduce_sum(weights, axes, keepdims=True)
        own_sum = tf.reduce_sum(inputs * weights, axes, keepdims=True)
    both = _sum(tf.stack([own_sum, tf.broadcast_to(count, tf.shape(own_sum))]))
    total = tf.math.maximum(both[1], tf.constant(1e-7, inputs.dtype))
    mean = both[0] / total
    squares = tf.square(inputs - mean)
    if weights is not None:
        squares = squares * weights
    variance = _sum(tf.reduce_sum(squares, axes, keepdims=True)) / total
    return mean, variance


def _channels(inputs: tf.Tensor, axes: list[int]) -> tf.Tensor:
    kept = [axis for axis in range(len(inputs.shape)) if axis not in axes]
    return tf.reduce_prod(tf.gather(tf.shape(inputs), kept)) if kept else tf.constant(1)


class _Joined:
    """The constructor and the arguments that the layer has with either Keras."""

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError(
                f"SyncBatchNormalization(fused={fused}): a fused kernel cannot look at other ranks"
            )
        kwargs.setdefault("name", None)
        super().__init__(**kwargs)


def _keras_3(base: type) -> type:
    class SyncBatchNormalization(_Joined, base):  # type: ignore[misc, valid-type]
        """keras.layers.BatchNormalization over the batches of all ranks."""

        def _moments(self, inputs: Any, mask: Any) -> Any:
            if not basics.is_initialized() or basics.size() == 1:
                return super()._moments(inputs, mask)
            axes = list(self._reduction_axes)
            weights = None if mask is None else tf.expand_dims(mask, -1)
            mean, variance = _joined_moments(inputs, axes, weights)
            return tf.squeeze(mean, axes), tf.squeeze(variance, axes)

    return SyncBatchNormalization


def _tf_keras(base: type) -> type:
    class SyncBatchNormalization(_Joined, base):  # type: ignore[misc, valid-type]
        """tf_keras.layers.BatchNormalization over the batches of all ranks."""

        def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
            super().__init__(fused=fused, **kwargs)
            self.fused = False

        def _calculate_mean_and_var(
            self, inputs: Any, reduction_axes: Any, keep_dims: bool, mask: Any = None
        ) -> Any:
            if not basics.is_initialized() or basics.size() == 1:
                return super()._calculate_mean_and_var(inputs, reduction_axes, keep_dims, mask)
            axes = [axis % len(inputs.shape) for axis in reduction_axes]
            weights = None if mask is None else tf.expand_dims(mask, -1)
            mean, variance = _joined_moments(inputs, axes, weights)
            if keep_dims:
                return mean, variance
            return tf.squeeze(mean, axes), tf.squeeze(variance, axes)

    return SyncBatchNormalization


@functools.cache
def _layer() -> type:
    from horovod._keras.chosen import keras_module

    base = keras_module().layers.BatchNormalization
    made = _tf_keras(base) if base.__module__.split(".")[0] == "tf_keras" else _keras_3(base)
    made.__module__ = __name__
    made.__qualname__ = "SyncBatchNormalization"
    return made


def __getattr__(name: str) -> Any:
    if name == "SyncBatchNormalization":
        return _layer()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
