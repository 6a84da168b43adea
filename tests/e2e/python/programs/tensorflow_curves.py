# SPDX-License-Identifier: Apache-2.0
"""Loss curves of ranks against one process with the joined batch: cases of tensorflow_ops.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from cases import case

import horovod.tensorflow as hvd

v1 = tf.compat.v1
STEPS, ROWS, RATE = 8, 4, 0.2

Batches = tuple[np.ndarray, np.ndarray]  # inputs and targets, step by step


def batches_of(rank: int) -> Batches:
    x = np.random.default_rng(rank).normal(size=(STEPS, ROWS, 3)).astype(np.float32)
    return x, np.sin(x.sum(2, keepdims=True))


def joined() -> Batches:
    parts = [batches_of(rank) for rank in range(hvd.size())]
    return np.concatenate([x for x, _ in parts], 1), np.concatenate([y for _, y in parts], 1)


def first_weights() -> list[np.ndarray]:
    random = np.random.default_rng(99)
    return [random.normal(size=shape).astype(np.float32) for shape in ((3, 8), (8,), (8, 1))]


def loss_of(weights: Sequence[Any], x: Any, y: Any) -> tf.Tensor:
    hidden = tf.tanh(tf.matmul(x, weights[0]) + weights[1])
    return tf.reduce_mean(tf.square(tf.matmul(hidden, weights[2]) - y))


def curve_of_tapes(batches: Batches, wrap: Callable[[Any], Any]) -> list[float]:
    variables = [tf.Variable(one) for one in first_weights()]

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y)
        gradients = wrap(tape).gradient(loss, variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(RATE * gradient)
        return loss

    return [float(step(x, y)) for x, y in zip(*batches, strict=True)]


def curve_of_sessions(batches: Batches, wrap: Callable[[Any], Any]) -> list[float]:
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = (v1.placeholder(tf.float32, part[0].shape) for part in batches)
        weights = [
            v1.get_variable(f"w{place}", initializer=one)
            for place, one in enumerate(first_weights())
        ]
        loss = loss_of(weights, x, y)
        train = wrap(v1.train.MomentumOptimizer(RATE, 0.5)).minimize(loss)
        session.run(v1.global_variables_initializer())
        fed = [{x: own, y: targets} for own, targets in zip(*batches, strict=True)]
        return [float(session.run([loss, train], one)[0]) for one in fed]


def check(ours: list[float], single: list[float]) -> None:
    mean = hvd.allreduce(tf.constant(ours, tf.float64))
    np.testing.assert_allclose(mean, single, rtol=1e-5)
    assert single[-1] < single[0] / 2, single


@case
def tapes_learn_as_one_process_with_the_joined_batch() -> None:
    single = curve_of_tapes(joined(), lambda tape: tape)
    for arguments in ({}, {"gradient_predivide_factor": 2.0, "groups": 2}):
        ours = curve_of_tapes(
            batches_of(hvd.rank()),
            lambda tape, arguments=arguments: hvd.DistributedGradientTape(tape, **arguments),
        )
        check(ours, single)


@case
def tensorflow_1_optimizers_learn_as_one_process_with_the_joined_batch() -> None:
    single = curve_of_sessions(joined(), lambda optimizer: optimizer)
    check(curve_of_sessions(batches_of(hvd.rank()), hvd.DistributedOptimizer), single)
