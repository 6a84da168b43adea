# SPDX-License-Identifier: Apache-2.0
"""Models and data that are the same on every rank, or differ by rank, for the Keras programs.

With TF_USE_LEGACY_KERAS=1 they run on tf_keras, with KERAS_BACKEND=torch on PyTorch alone. argv[1]
is a folder that the ranks share.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np

import horovod.keras as hvd

is_keras_3 = os.environ.get("TF_USE_LEGACY_KERAS") != "1"
keras: Any = importlib.import_module("keras" if is_keras_3 else "tf_keras")
backend: str = keras.backend.backend()
scratch = Path(sys.argv.pop(1))
BATCH = 8
FEATURES = 6


def fronts() -> list[Any]:
    """Both, where both can be had."""
    is_tensorflow = backend == "tensorflow"
    return [hvd, *([importlib.import_module("horovod.tensorflow.keras")] * is_tensorflow)]


def variable_of(value: Any, name: str = "variable") -> Any:
    make = keras.Variable if is_keras_3 else keras.backend.variable
    return make(np.asarray(value, np.float32), name=name)


def tensor_of(value: Any) -> Any:
    make = keras.ops.convert_to_tensor if is_keras_3 else keras.backend.constant
    return make(np.asarray(value, np.float32))


def make_model(seed: int = 0, policy: str | None = None) -> Any:
    """A model without batch statistics and dropout."""
    keras.utils.set_random_seed(seed)
    if policy is not None:
        keras.mixed_precision.set_global_policy(policy)
    model = keras.Sequential(
        [
            keras.layers.Input((FEATURES,)),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(3),
        ]
    )
    keras.mixed_precision.set_global_policy("float32")
    return model


def make_loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def data_of(rank: int, steps: int = 3) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rank)
    x = random.normal(size=(steps * BATCH, FEATURES)).astype(np.float32)
    return x, random.integers(0, 3, size=steps * BATCH).astype(np.int32)


def joined_data(
    steps: int = 3, ranks: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Batch by batch, the batches of these ranks, or of all, one after another."""
    parts = [data_of(rank, steps) for rank in ranks or range(hvd.size())]
    x, y = (np.stack([part[i] for part in parts]) for i in range(2))
    x = x.reshape(len(parts), steps, BATCH, FEATURES).swapaxes(0, 1)
    y = y.reshape(len(parts), steps, BATCH).swapaxes(0, 1)
    return x.reshape(-1, FEATURES), y.reshape(-1)


def fit(model: Any, data: tuple[np.ndarray, np.ndarray], batch: int, **kwargs: Any) -> Any:
    return model.fit(*data, batch_size=batch, shuffle=False, verbose=0, **kwargs)


def trained(optimizer: Any, callbacks: Any = (), model: Any = None, **kwargs: Any) -> Any:
    """A model after an epoch on this rank's data, from weights that differ between ranks."""
    model = model or make_model(seed=hvd.rank())
    model.compile(optimizer, loss=make_loss(), metrics=["accuracy"], **kwargs)
    fit(
        model,
        data_of(hvd.rank()),
        BATCH,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), *callbacks],
    )
    return model


def alone(optimizer: Any, steps: int = 3, ranks: Sequence[int] | None = None) -> Any:
    """The same training in a single process, on the joined batches of these ranks, or of all."""
    model = make_model(seed=0)
    model.compile(optimizer, loss=make_loss())
    fit(model, joined_data(steps, ranks), BATCH * len(ranks or range(hvd.size())))
    return model


@functools.cache
def alone_with_sgd() -> Any:
    """What many cases compare with."""
    return alone(sgd())


def check_same_everywhere(model: Any) -> None:
    everybodys = hvd.allgather_object([weight.tolist() for weight in model.get_weights()])
    assert all(weights == everybodys[0] for weights in everybodys)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def check_close(model: Any, expected: Any, tolerance: float = 1e-5) -> None:
    for actual, wanted in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)


def sgd(**kwargs: Any) -> Any:
    return keras.optimizers.SGD(0.1, momentum=0.9, **kwargs)
