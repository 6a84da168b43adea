# SPDX-License-Identifier: Apache-2.0
"""Where the names of TensorFlow 1 are: in tf.compat.v1, with a few exceptions."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import tensorflow as tf

from horovod.classic import keras_names
from horovod.classic.removed import name_error
from horovod.classic.report import substitution
from horovod.classic.views import ModuleLookup, View


class ModeKeys:
    """tf.estimator.ModeKeys, as values."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


def _estimator(label: str) -> View:
    def find(name: str) -> Any:
        if name != "ModeKeys":
            raise AttributeError(name)
        substitution(f"{label}.ModeKeys", "a class of the three strings")
        return ModeKeys

    return View(label, label, find)


def _keras(label: str, path: str = "") -> View:
    name = f"{label}.{path}".rstrip(".")
    view = keras_names.view(name, path, lambda inner: _keras(label, inner))
    if view is None:
        raise name_error(name)
    if not path:
        substitution(label, "tf_keras")
    return view


def _as_it_is(module: ModuleType) -> Any:
    return lambda label: module


def _removed(label: str) -> Any:
    raise name_error(label)


@functools.cache
def view() -> View:
    """What the script knows as tensorflow."""
    own = {
        "compat": _as_it_is(tf.compat.v1.compat),
        "contrib": _removed,
        "estimator": _estimator,
        "keras": _keras,
    }
    return View("tensorflow", "tf", ModuleLookup("tf", tf.compat.v1, "tf.compat.v1", tf, own))
