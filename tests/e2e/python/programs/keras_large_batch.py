# SPDX-License-Identifier: Apache-2.0
"""Optimizers for large batches and rates that follow the ranks: cases of keras_training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import large_batch_papers as papers
import numpy as np
from cases import case, raises
from keras_support import (
    BATCH,
    alone,
    backend,
    check_close,
    check_same_everywhere,
    data_of,
    fit,
    is_keras_3,
    keras,
    make_loss,
    make_model,
    sgd,
    tensor_of,
    trained,
    variable_of,
)

import horovod.keras as hvd
from horovod.keras.optimizers import LAMB, LARS, RAdam, WarmupSchedule, scaled_lr, warmup_lr


def check_steps(optimizer: Any, expected: Iterable[list[np.ndarray]]) -> None:
    variables = [variable_of(value, f"w{place}") for place, value in enumerate(papers.start())]
    for step, (own, wanted) in enumerate(zip(papers.gradients(), expected, strict=True)):
        optimizer.apply_gradients(list(zip(map(tensor_of, own), variables, strict=True)))
        for variable, value in zip(variables, wanted, strict=True):
            actual = keras.ops.convert_to_numpy(variable) if is_keras_3 else variable.numpy()
            np.testing.assert_allclose(actual, value, 2e-5, 2e-6, err_msg=f"after step {step + 1}")


@case
def lars_is_that_of_the_paper() -> None:
    check_steps(LARS(lr=2.0, weight_decay=0.01, eeta=0.02), papers.lars(2.0, 0.9, 0.01, 0.02))
    check_steps(LARS(1.0, 0.8, 0.0, nesterov=True), papers.lars(1.0, 0.8, 0.0, 0.001, True))
    plain = LARS(0.1, skip_list=["w"])  # as SGD, whose momentum sums steps
    check_steps(plain, papers_of_sgd(0.1, 0.9))


def papers_of_sgd(lr: float, momentum: float) -> Iterable[list[np.ndarray]]:
    weights = papers.start()
    velocity = [np.zeros_like(w) for w in weights]
    for step in papers.gradients():
        velocity = [momentum * v + lr * g for v, g in zip(velocity, step, strict=True)]
        weights = [w - v for w, v in zip(weights, velocity, strict=True)]
        yield weights


@case
def lamb_is_that_of_the_paper() -> None:
    check_steps(LAMB(lr=0.05, weight_decay=0.1), papers.lamb(0.05, 0.9, 0.999, 1e-6, 0.1))
    check_steps(LAMB(0.05, beta_1=0.5, beta_2=0.9), papers.lamb(0.05, 0.5, 0.9, 1e-6, 0.0))


@case
def radam_is_that_of_the_paper() -> None:
    steps = papers.STEPS
    exact = {"epsilon": 0.0}
    check_steps(RAdam(lr=0.1, **exact), papers.radam([0.1] * steps, 0.9, 0.999))
    check_steps(
        RAdam(0.1, 0.8, 0.9, sma_threshold=5.0, **exact),
        papers.radam([0.1] * steps, 0.8, 0.9, 5.0),
    )
    ramped = RAdam(total_steps=10, warmup_proportion=0.4, learning_rate=0.2, min_lr=0.01, **exact)
    check_steps(ramped, papers.radam(papers.ramp(0.2, 10, 0.4, 0.01), 0.9, 0.999))


@case
def large_batch_optimizers_are_distributed() -> None:
    for make in (
        lambda: LARS(lr=0.5, skip_list=["bias"]),
        lambda: LAMB(lr=0.01, weight_decay=0.01),
        lambda: RAdam(total_steps=50, warmup_proportion=0.1, learning_rate=0.01, min_lr=1e-5),
    ):
        distributed = hvd.DistributedOptimizer(make())
        assert type(distributed).__name__ == type(make()).__name__
        model = trained(distributed)
        check_same_everywhere(model)
        check_close(model, alone(make()), 1e-3)
        config = make().get_config()
        assert type(make()).from_config(config).get_config() == config


@case
def rates_follow_the_ranks() -> None:
    size = hvd.size()
    assert scaled_lr(0.1) == 0.1 * size
    assert scaled_lr(0.1, "sqrt", 16) == 0.4
    assert "'linear'" in raises(ValueError, lambda: scaled_lr(0.1, "square"))
    rising = [0.4 * (1 + (size - 1) * min(1, step / 4)) / size for step in range(1, 7)]
    np.testing.assert_allclose([warmup_lr(step, 0.4, 4) for step in range(6)], rising)
    schedule = WarmupSchedule(0.4, 4)
    np.testing.assert_allclose([float(schedule(step)) for step in range(6)], rising, 1e-6)
    again = WarmupSchedule.from_config(schedule.get_config())
    assert again.get_config() == schedule.get_config()

    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
    scaling = hvd.callbacks.LearningRateScalingCallback()
    for _ in range(2):
        fit(model, data_of(hvd.rank()), BATCH, callbacks=[scaling])
        rate = model.optimizer.learning_rate
        np.testing.assert_allclose(
            float(np.asarray(keras.ops.convert_to_numpy(rate) if is_keras_3 else rate)), 0.1 * size
        )


@case
def the_legacy_optimizers_momentum_is_corrected() -> None:
    if is_keras_3 or backend != "tensorflow":
        return
    model = make_model(seed=0)
    optimizer = keras.optimizers.legacy.SGD(0.1, momentum=0.9)
    model.compile(hvd.DistributedOptimizer(optimizer), loss=make_loss())
    fit(model, data_of(hvd.rank()), BATCH)
    weight = model.trainable_variables[0]
    before = np.asarray(model.optimizer.get_slot(weight, "momentum"))
    half = hvd.callbacks.LearningRateScheduleCallback(multiplier=0.5)
    half.set_model(model)
    half.on_train_begin()
    half.on_epoch_begin(1)
    half.on_train_batch_begin(0)
    after = np.asarray(model.optimizer.get_slot(weight, "momentum"))
    np.testing.assert_allclose(after, before / 2, rtol=1e-6)
