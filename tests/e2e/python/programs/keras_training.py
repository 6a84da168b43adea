# SPDX-License-Identifier: Apache-2.0
"""horovod.keras inside model.fit, for any number of ranks.

With TF_USE_LEGACY_KERAS=1 it runs on tf_keras. argv[1] is a folder that the ranks share.
"""

from __future__ import annotations

from typing import Any

import keras_arguments  # noqa: F401  (its cases)
import keras_callbacks  # noqa: F401  (its cases)
import keras_large_batch  # noqa: F401  (its cases)
import keras_layers  # noqa: F401  (its cases)
import numpy as np
from cases import case, raises, run
from keras_support import (
    BATCH,
    alone,
    alone_with_sgd,
    backend,
    check_close,
    check_same_everywhere,
    data_of,
    fit,
    is_keras_3,
    joined_data,
    keras,
    make_loss,
    make_model,
    scratch,
    sgd,
    trained,
    variable_of,
)

import horovod.keras as hvd
from horovod.common.basics import basics


@case
def training_equals_the_single_process_on_the_joined_batch() -> None:
    for optimizer, expected in (
        (sgd(), alone_with_sgd()),
        (keras.optimizers.Adam(0.01), alone(keras.optimizers.Adam(0.01))),
    ):
        model = trained(hvd.DistributedOptimizer(optimizer))
        check_same_everywhere(model)
        check_close(model, expected)


class Losses(keras.callbacks.Callback):
    """The loss after every step: Keras gives the mean of the epoch so far."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(float(logs["loss"]))


def curve(optimizer: Any, data: tuple[np.ndarray, np.ndarray], batch: int) -> np.ndarray:
    model = make_model(seed=0)
    model.compile(optimizer, loss=make_loss())
    losses = Losses()
    fit(model, data, batch, epochs=4, callbacks=[losses])
    return np.array(losses.seen)


@case
def the_loss_of_every_step_is_that_of_one_process_with_the_joined_batch() -> None:
    single = curve(sgd(), joined_data(), BATCH * hvd.size())
    ours = curve(hvd.DistributedOptimizer(sgd()), data_of(hvd.rank()), BATCH)
    assert len(single) == 12 and single[-1] < single[0], single
    np.testing.assert_allclose(np.asarray(hvd.allreduce(ours)), single, rtol=1e-5)


@case
def one_step_equals_the_single_process_to_rounding() -> None:
    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)), loss=make_loss())
    fit(model, data_of(hvd.rank(), steps=1), BATCH)
    check_close(model, alone(keras.optimizers.SGD(1.0), steps=1), tolerance=1e-6)


@case
def eager_training_and_several_steps_per_execution_are_the_same() -> None:
    expected = alone_with_sgd()
    several = {"steps_per_execution": 1 if backend == "torch" else 3}  # Keras has no more there
    for kwargs in ({"run_eagerly": True}, several, {"jit_compile": False}):
        model = trained(hvd.DistributedOptimizer(sgd()), **kwargs)
        check_same_everywhere(model)
        check_close(model, expected)


@case
def every_way_of_grouping_and_splitting_is_the_same() -> None:
    expected = alone_with_sgd()
    model = make_model(seed=hvd.rank())
    first_layer = model.trainable_variables[:2]
    for wrapped, own in (
        (hvd.DistributedOptimizer(sgd(), num_groups=2), None),
        (hvd.DistributedOptimizer(sgd(), groups=[first_layer]), model),
        (hvd.DistributedOptimizer(sgd(), gradient_predivide_factor=2.0), None),
        (hvd.DistributedOptimizer(sgd(), name="mine", sparse_as_dense=True), None),
    ):
        check_close(trained(wrapped, model=own), expected)
    model = trained(hvd.DistributedOptimizer(sgd(), compression=hvd.Compression.fp16))
    check_same_everywhere(model)
    check_close(model, expected, tolerance=1e-2)


@case
def the_gradients_of_a_step_travel_as_one_group() -> None:
    if hvd.size() == 1 or backend != "tensorflow":
        return
    model = trained(hvd.DistributedOptimizer(sgd()))
    before = basics.counters()
    fit(model, data_of(hvd.rank()), BATCH)
    after = basics.counters()
    assert after["submitted"] - before["submitted"] == 3 * len(model.trainable_variables)
    assert after["collectives"] - before["collectives"] == 3, (before, after)
    assert after["names_bytes"] == before["names_bytes"], (before, after)


@case
def several_passes_make_one_step() -> None:
    wrapped = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=3, average_aggregated_gradients=True
    )
    for kwargs in ({}, {"run_eagerly": True}):
        wrapped = hvd.DistributedOptimizer(
            keras.optimizers.SGD(0.1), backward_passes_per_step=3, average_aggregated_gradients=True
        )
        model = trained(wrapped, **kwargs)
        assert int(wrapped._agg_helper.counter) == 0
        assert int(wrapped.iterations) == 3
        expected = make_model(seed=0)
        expected.compile(keras.optimizers.SGD(0.1), loss=make_loss())
        fit(expected, joined_data(), 3 * BATCH * hvd.size())
        check_close(model, expected)
    message = raises(
        ValueError, lambda: hvd.DistributedOptimizer(sgd(), backward_passes_per_step=0)
    )
    assert "backward_passes_per_step=0" in message


@case
def sparse_gradients_train_an_embedding() -> None:
    def make(seed: int) -> Any:
        keras.utils.set_random_seed(seed)
        layers = [keras.layers.Embedding(5, 4), keras.layers.Flatten(), keras.layers.Dense(3)]
        return keras.Sequential([keras.layers.Input((2,), dtype="int32"), *layers])

    def numbers(rank: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(rank)
        return random.integers(0, 5, (BATCH, 2)), random.integers(0, 3, BATCH)

    parts = [numbers(rank) for rank in range(hvd.size())]
    joined = tuple(np.concatenate([part[i] for part in parts]) for i in range(2))
    expected = make(0)
    expected.compile(keras.optimizers.SGD(0.5), loss=make_loss())
    fit(expected, joined, BATCH * hvd.size())
    for as_dense in (False, True):
        model = make(0)
        wrapped = hvd.DistributedOptimizer(keras.optimizers.SGD(0.5), sparse_as_dense=as_dense)
        model.compile(wrapped, loss=make_loss())
        fit(model, numbers(hvd.rank()), BATCH)
        check_close(model, expected)


@case
def an_infinity_on_one_rank_skips_the_step_on_all() -> None:
    for passes in (1, 2):
        wrapped = hvd.DistributedOptimizer(
            keras.optimizers.SGD(0.01), backward_passes_per_step=passes
        )
        model = make_model(seed=0, policy="mixed_float16")
        model.compile(wrapped, loss=make_loss())
        x, y = data_of(hvd.rank(), steps=4)
        if hvd.rank() == hvd.size() - 1:
            x[BATCH : 2 * BATCH] = np.inf  # the second of four steps
        before = model.get_weights()
        fit(model, (x[: 2 * BATCH], y[: 2 * BATCH]), BATCH)
        after_infinity = model.get_weights()
        fit(model, (x[2 * BATCH :], y[2 * BATCH :]), BATCH)
        check_same_everywhere(model)
        scale = model.optimizer.dynamic_scale if is_keras_3 else model.optimizer.loss_scale
        assert float(scale) == 2.0**14, scale
        if passes == 1:
            assert not np.array_equal(before[0], after_infinity[0])
        assert not np.array_equal(after_infinity[0], model.get_weights()[0])


@case
def a_loss_scale_optimizer_can_be_wrapped_too() -> None:
    if not is_keras_3:
        return
    scaled = keras.mixed_precision.LossScaleOptimizer(sgd(), dynamic_growth_steps=7)
    wrapped = hvd.DistributedOptimizer(scaled)
    assert type(wrapped).__name__ == "LossScaleOptimizer"
    again = wrapped.from_config(wrapped.get_config())
    assert again.get_config() == wrapped.get_config()
    check_same_everywhere(trained(wrapped))
    check_same_everywhere(trained(again))


@case
def xla_is_left_out_or_refused() -> None:
    model = make_model()
    model.compile(hvd.DistributedOptimizer(sgd()), loss=make_loss())
    assert not model.jit_compile
    wrapped = hvd.DistributedOptimizer(sgd())
    message = raises(ValueError, lambda: model.compile(wrapped, "mse", jit_compile=True))
    assert "jit_compile=False" in message
    if backend == "tensorflow":
        model.compile(sgd(), "mse", jit_compile=True)  # others may
    model.compile(sgd(), "mse")


@case
def a_keyword_of_old_scripts_is_accepted() -> None:
    model = make_model()
    wrapped = hvd.DistributedOptimizer(sgd())
    model.compile(wrapped, loss=make_loss(), experimental_run_tf_function=False)
    assert not model.jit_compile
    raises(TypeError, lambda: model.compile(wrapped, experimental_run_tf_functions=False))
    if is_keras_3:
        raises(TypeError, lambda: model.compile(sgd(), experimental_run_tf_function=False))


@case
def a_wrapped_optimizer_is_its_base_to_the_world() -> None:
    wrapped = hvd.DistributedOptimizer(sgd(nesterov=True))
    assert isinstance(wrapped, keras.optimizers.SGD)
    assert type(wrapped).__name__ == "SGD"
    assert type(wrapped).__module__ == type(sgd()).__module__
    config = wrapped.get_config()
    for again in (wrapped.from_config(config), type(wrapped).from_config(config)):
        assert again.get_config() == config
        assert type(again) is type(wrapped)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    scheduled = hvd.DistributedOptimizer(keras.optimizers.Adam(schedule))
    assert scheduled.get_config()["learning_rate"] is not None
    assert "twice" in raises(ValueError, lambda: hvd.DistributedOptimizer(wrapped))
    assert "cannot wrap 'sgd'" in raises(ValueError, lambda: hvd.DistributedOptimizer("sgd"))
    message = raises(
        ValueError,
        lambda: hvd.DistributedOptimizer(sgd(), gradient_predivide_factor=2.0, op=hvd.Sum),
    )
    assert "hvd.Average" in message
    message = raises(ValueError, lambda: hvd.DistributedOptimizer(sgd(), op=hvd.Adasum))
    assert "hvd.Adasum" in message


def power_of(step: Any) -> Any:
    """The number of the step as floating point."""
    if is_keras_3:
        return keras.ops.cast(step, "float32")
    return keras.backend.cast(step, "float32")


class HalvingRate(keras.optimizers.schedules.LearningRateSchedule):
    """As people write them: without a config."""

    def __call__(self, step: Any) -> Any:
        return 0.1 * 0.5 ** power_of(step)


class SpecialSGD(keras.optimizers.SGD):
    def __init__(self, *args: Any, special: object = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.special = special


@case
def what_the_config_does_not_tell_is_kept() -> None:
    special = object()
    optimizer = SpecialSGD(HalvingRate(), special=special, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    wrapped = hvd.DistributedOptimizer(optimizer)
    assert wrapped.special is special
    weight, bias = (variable_of(1.0, name) for name in ("weight", "bias"))
    assert wrapped._use_weight_decay(weight) and not wrapped._use_weight_decay(bias)
    makers = [lambda: keras.optimizers.SGD(HalvingRate())]
    if is_keras_3:
        scaled = keras.mixed_precision.LossScaleOptimizer
        makers.append(lambda: scaled(SpecialSGD(HalvingRate(), special=special)))
    else:
        makers.append(lambda: keras.optimizers.legacy.SGD(HalvingRate()))
    for make in makers:
        model = trained(hvd.DistributedOptimizer(make()))
        check_same_everywhere(model)
        check_close(model, alone(keras.optimizers.SGD(HalvingRate())))


@case
def legacy_optimizers_of_tf_keras_train_too() -> None:
    if is_keras_3:
        return
    legacy = keras.optimizers.legacy
    for make in (lambda: legacy.SGD(0.1, momentum=0.9), lambda: legacy.Adam(0.01)):
        wrapped = hvd.DistributedOptimizer(make())
        assert wrapped.from_config(wrapped.get_config()).get_config() == wrapped.get_config()
        model = trained(wrapped)
        check_same_everywhere(model)
        check_close(model, alone(make()))


@case
def the_state_of_a_used_optimizer_is_kept() -> None:
    model = make_model(seed=0)
    model.compile(sgd(), loss=make_loss())
    fit(model, data_of(0), BATCH)
    wrapped = hvd.DistributedOptimizer(model.optimizer)
    assert int(wrapped.iterations) == 3
    assert len(wrapped.variables) == len(model.optimizer.variables)
    for new, old in zip(wrapped.variables, model.optimizer.variables, strict=True):
        assert np.array_equal(np.asarray(new), np.asarray(old))


@case
def a_saved_model_is_loaded_with_its_optimizer_distributed_again() -> None:
    path = scratch / f"model{hvd.rank()}.keras"
    model = trained(hvd.DistributedOptimizer(sgd()))
    model.save(path)
    loaded = hvd.load_model(str(path))
    assert int(loaded.optimizer.iterations) == 3
    for new, old in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        assert np.array_equal(np.asarray(new), np.asarray(old))
    fit(loaded, data_of(hvd.rank() + 10), BATCH)
    check_same_everywhere(loaded)
    fit(model, data_of(hvd.rank() + 10), BATCH)
    check_close(loaded, model)


@case
def what_rank_0_loads_alone_all_ranks_go_on_with() -> None:
    path = scratch / f"resumed{hvd.size()}.keras"
    model = trained(hvd.DistributedOptimizer(sgd()))
    model.optimizer.learning_rate = 0.05
    if hvd.rank() == 0:
        model.save(path)
    layers = [keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(3)]
    for make in (make_model, lambda: keras.Sequential(layers)):  # built, and not built yet
        resumed = hvd.load_model(str(path)) if hvd.rank() == 0 else make()
        if hvd.rank() != 0:
            resumed.compile(hvd.DistributedOptimizer(sgd()), make_loss(), metrics=["accuracy"])
        callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
        fit(resumed, data_of(hvd.rank()), BATCH, callbacks=[callback])
        check_same_everywhere(resumed)
        assert int(resumed.optimizer.iterations) == 6
        assert abs(float(resumed.optimizer.learning_rate) - 0.05) < 1e-6


@case
def one_rank_may_wrap_an_optimizer_for_itself() -> None:
    if hvd.rank() == 0:
        hvd.DistributedOptimizer(sgd())
    check_same_everywhere(trained(hvd.DistributedOptimizer(sgd())))


@case
def ranks_that_train_other_models_get_a_sentence() -> None:
    if hvd.size() == 1:
        return
    model = make_model()
    if hvd.rank() > 0:
        model.add(keras.layers.Dense(3))
    message = raises(ValueError, lambda: trained(hvd.DistributedOptimizer(sgd()), model=model))
    assert "rank 1 has other variables than rank 0" in message, message


if __name__ == "__main__":
    hvd.init(process_sets="dynamic")
    run()
