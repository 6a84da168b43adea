# SPDX-License-Identifier: Apache-2.0
"""Local layers, the original's private names, elastic states and checkpoints: cases of
keras_training.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from cases import case, raises
from keras_support import (
    BATCH,
    backend,
    check_close,
    check_same_everywhere,
    data_of,
    fit,
    fronts,
    joined_data,
    keras,
    make_loss,
    make_model,
    scratch,
    sgd,
    trained,
)

import horovod.keras as hvd


def steps_of(rank: int, model: Any) -> list[np.ndarray]:
    """What one plain step of SGD(1.0) on a rank's data changes."""
    before = [weight.copy() for weight in model.get_weights()]
    own = keras.models.clone_model(model)
    own.set_weights(before)
    own.compile(keras.optimizers.SGD(1.0), make_loss())
    fit(own, data_of(rank, steps=1), BATCH)
    return [new - old for new, old in zip(own.get_weights(), before, strict=True)]


@case
def local_layers_keep_their_own_gradients() -> None:
    size, rank = hvd.size(), hvd.rank()
    for front in fronts():
        for scale in (True, False):
            model = make_model(seed=0)
            steps = [steps_of(other, model) for other in range(size)]
            before = model.get_weights()
            wrapped = front.PartialDistributedOptimizer(
                keras.optimizers.SGD(1.0),
                local_layers=model.layers[-1],
                scale_local_gradients=scale,
            )
            model.compile(wrapped, make_loss())
            fit(model, data_of(rank, steps=1), BATCH)
            changes = [new - old for new, old in zip(model.get_weights(), before, strict=True)]
            for i in range(2):
                mean = np.mean([step[i] for step in steps], axis=0)
                np.testing.assert_allclose(changes[i], mean, rtol=1e-4, atol=1e-5)
            for i in range(2, 4):
                own = steps[rank][i] / (size if scale else 1)
                np.testing.assert_allclose(changes[i], own, rtol=1e-4, atol=1e-5)
    raises(ValueError, lambda: hvd.PartialDistributedOptimizer(sgd(), local_layers=["dense"]))
    message = raises(ValueError, lambda: hvd.DistributedOptimizer(sgd(), groups="two"))
    assert "groups" in message


@case
def a_model_with_batch_normalisation_trains_as_one_process() -> None:
    if backend != "tensorflow":
        return
    import horovod.tensorflow as hvd_tensorflow

    synchronised = hvd_tensorflow.SyncBatchNormalization
    assert issubclass(synchronised, keras.layers.BatchNormalization)
    if hvd.rank() == 0:
        make_model()  # Keras counts on from another number on this rank

    def trained_with(layer: type, optimizer: Any, data: Any, batch: int) -> Any:
        keras.utils.set_random_seed(0)
        ends = [keras.layers.Dense(8), keras.layers.Dense(3)]
        model = keras.Sequential([keras.layers.Input((6,)), ends[0], layer(momentum=0.5), ends[1]])
        model.compile(optimizer, make_loss())
        fit(model, data, batch)
        return model

    plain = keras.optimizers.SGD
    model = trained_with(
        synchronised, hvd.DistributedOptimizer(plain(0.1)), data_of(hvd.rank()), BATCH
    )
    normalisation = keras.layers.BatchNormalization
    single = trained_with(normalisation, plain(0.1), joined_data(), BATCH * hvd.size())
    check_close(model, single, tolerance=1e-4)

    layer = synchronised(momentum=0.0)
    own = np.full((1, 2, 1), float(hvd.rank()), np.float32)
    layer(own, training=True, mask=np.array([[True, hvd.rank() % 2 == 0]]))
    seen = [float(rank) for rank in range(hvd.size()) for _ in range(2 - rank % 2)]
    np.testing.assert_allclose(np.asarray(layer.moving_mean), [np.mean(seen)], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(layer.moving_variance), [np.var(seen)], atol=1e-5)


@case
def computed_gradients_are_applied_once() -> None:
    """Also of a sum, which is not the same when it is reduced twice."""
    if backend != "tensorflow":
        return
    import tensorflow as tf

    size, rank = hvd.size(), hvd.rank()
    for passes in (1, 2):
        variable = keras.Variable([1.0, 2.0]) if hasattr(keras, "Variable") else tf.Variable(
            [1.0, 2.0])  # fmt: skip
        wrapped = hvd.DistributedOptimizer(
            keras.optimizers.SGD(1.0), op=hvd.Sum, backward_passes_per_step=passes
        )
        if hasattr(wrapped, "build"):
            wrapped.build([variable])
        for count in range(passes):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable * (rank + 1.0))
            pairs = wrapped._compute_gradients(loss, [variable], tape=tape)
            wrapped.apply_gradients(pairs)
            if passes > 1:
                assert int(wrapped._agg_helper.counter) == (count + 1) % passes
        total = passes * size * (size + 1) / 2
        np.testing.assert_allclose(np.asarray(variable), [1 - total, 2 - total], rtol=1e-6)
        assert int(wrapped.iterations) == passes


@case
def optimizers_go_through_their_config() -> None:
    for make in (sgd, lambda: keras.optimizers.Adam(0.01)):
        wrapped = hvd.DistributedOptimizer(make())
        config = wrapped.get_config()
        again = type(wrapped).from_config(config)
        assert again.get_config() == config
        assert wrapped.from_config(config).get_config() == config
        variables = again.variables
        assert len(variables() if callable(variables) else variables) >= 1
        check_same_everywhere(trained(again))


@case
def a_state_is_saved_restored_and_synchronised() -> None:
    rank = hvd.rank()
    model = make_model(seed=rank)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), make_loss())
    if rank == 0:  # and the others have made no state of their optimizers yet
        model.optimizer.build(model.trainable_variables)
    state = hvd.elastic.KerasState(model, batch=20 + rank, epoch=10 + rank)
    assert state.optimizer is model.optimizer
    state.sync()
    check_same_everywhere(model)
    assert (state.batch, state.epoch) == (20, 10)
    weights = model.get_weights()
    model.set_weights([np.zeros_like(one) for one in weights])
    state.batch = 21
    state.restore()
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), weights, strict=True))
    assert state.batch == 20
    model.set_weights([np.ones_like(one) for one in weights])
    state.commit()
    model.set_weights(weights)
    state.restore()
    assert all((one == 1).all() for one in model.get_weights())
    assert "no elastic jobs" in raises(
        NotImplementedError, lambda: hvd.elastic.run(lambda state: None)
    )


@case
def callbacks_keep_a_state_up_to_date() -> None:
    commits: list[int] = []
    state = SimpleNamespace(batch=0, epoch=2)
    state.commit = lambda: commits.append(state.batch)
    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), make_loss())
    fit(
        model,
        data_of(hvd.rank(), steps=4),
        BATCH,
        epochs=2,
        callbacks=[
            hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.UpdateEpochStateCallback(state),
            hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
        ],
    )
    assert commits == [1, 3, 1, 3], commits
    assert (state.batch, state.epoch) == (0, 4)


@case
def the_best_model_is_saved_where_a_rank_says() -> None:
    checkpoint = hvd.callbacks.BestModelCheckpoint(monitor="loss")
    if hvd.rank() == 0:
        checkpoint.filepath = scratch / f"best{hvd.size()}.keras"
    model = make_model(seed=0)
    model.compile(hvd.DistributedOptimizer(sgd()), make_loss())
    own = [checkpoint] if hvd.rank() == 0 else []
    fit(model, data_of(hvd.rank()), BATCH, callbacks=own)
    if hvd.rank() == 0:
        saved = keras.models.load_model(str(scratch / f"best{hvd.size()}.keras"))
        for new, old in zip(saved.get_weights(), model.get_weights(), strict=True):
            assert np.array_equal(new, old)
