# SPDX-License-Identifier: Apache-2.0
"""Names for which nothing can stand, each with what to use instead."""

from __future__ import annotations

from horovod.classic.report import place


class RemovedNameError(AttributeError):
    """A name of a module that no longer exists. Its message has line and successor."""


class RemovedModuleError(ModuleNotFoundError):
    """A module that no longer exists or is not installed."""


_LOOP = "train with tf.train.MonitoredTrainingSession, or a model of keras and its fit()"
_OPTIMIZERS = "use horovod.keras.optimizers, which has LARS, LAMB and RAdam"

# The longest beginning of a name decides.
_NAMES = {
    "keras.utils.multi_gpu_model": "start a rank for each GPU: horovodrun -np N",
    "keras.utils.training_utils": "start a rank for each GPU: horovodrun -np N",
    "tf.contrib": "tf.contrib ended with TensorFlow 1: look for its parts in tf and in tf.keras",
    "tf.contrib.data": "use tf.data",
    "tf.contrib.distribute": "start a rank for each GPU: horovodrun -np N",
    "tf.contrib.keras": "use keras or tf.keras",
    "tf.contrib.layers": "use tf.layers or tf.keras.layers",
    "tf.contrib.learn": f"use keras.datasets for data; {_LOOP}",
    "tf.contrib.opt": _OPTIMIZERS,
    "tf.contrib.rnn": "use tf.nn.rnn_cell",
    "tf.contrib.slim": "pip install tf_slim, and import tf_slim as slim",
    "tf.contrib.training": "use argparse for hyperparameters, tf.data for batches",
    "tf.distribute": "start a rank for each GPU: horovodrun -np N",
    "tf.estimator": f"estimators ended with TensorFlow 2.15: {_LOOP}",
    "tf.estimator.Estimator": f"estimators ended with TensorFlow 2.15: {_LOOP}",
    "tf.examples": "use keras.datasets.mnist.load_data()",
}

_MODULES = {
    "keras_applications": "use keras.applications",
    "keras_contrib": (
        "it is no longer maintained: install it from https://github.com/keras-team/keras-contrib, "
        "take the class into the script, or use keras.applications; its optimizers are in "
        "horovod.keras.optimizers and its CRF in no maintained package"
    ),
    "keras_preprocessing": "use keras.preprocessing",
    "keras_radam": _OPTIMIZERS,
    "tensorflow_addons": f"it is no longer maintained; {_OPTIMIZERS}",
    "tensorflow_estimator": f"estimators ended with TensorFlow 2.15: {_LOOP}",
}


def _successor(name: str) -> str:
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        found = _NAMES.get(".".join(parts[:end]))
        if found is not None:
            return found
    return "see https://www.tensorflow.org/guide/migrate"


def name_error(name: str) -> RemovedNameError:
    """For `tf.contrib.slim` and the like."""
    return RemovedNameError(f"{place()}: {name} does not exist any more: {_successor(name)}")


def module_error(name: str) -> RemovedModuleError:
    """For a module of TensorFlow or Keras, as the script imports it."""
    path = name.replace("tensorflow.", "tf.", 1)
    message = f"{place()}: {name} does not exist any more: {_successor(path)}"
    return RemovedModuleError(message, name=name)


def is_package_of_the_time(name: str) -> bool:
    """Whether it is one that people installed beside Keras 2."""
    return name in _MODULES


def package_error(name: str) -> RemovedModuleError:
    """For such a package, where it is not installed."""
    return RemovedModuleError(f"{place()}: {name} is not installed: {_MODULES[name]}", name=name)
