# SPDX-License-Identifier: Apache-2.0
"""Where the names of Keras 2 are in tf_keras."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from horovod.classic import data_sets, optimizers
from horovod.classic.report import substitution
from horovod.classic.views import Lookup, ModuleLookup, View

_API = "tf_keras.api._v1.keras"  # the names that tf.compat.v1.keras has
_SOURCES = "tf_keras.src"

# Modules that Keras 2 had beside those that it documents, and where their names are.
MOVED = {
    "backend.tensorflow_backend": "backend",
    "engine": "layers",
    "engine.base_layer": "layers",
    "engine.input_layer": "layers",
    "engine.network": "models",
    "engine.sequential": "models",
    "engine.topology": "layers",
    "engine.training": "models",
    "initializations": "initializers",
    "objectives": "losses",
    "utils.data_utils": "utils",
    "utils.generic_utils": "utils",
    "utils.io_utils": "utils",
    "utils.layer_utils": "utils",
    "utils.np_utils": "utils",
    "utils.vis_utils": "utils",
    **{
        f"layers.{name}": "layers"
        for name in (
            "advanced_activations",
            "convolutional",
            "convolutional_recurrent",
            "core",
            "cudnn_recurrent",
            "embeddings",
            "local",
            "merge",
            "noise",
            "normalization",
            "pooling",
            "recurrent",
            "wrappers",
        )
    },
}


def find_module(path: str) -> ModuleType | None:
    """The module of tf_keras for `path`, such as "layers.core"; None where there is none."""
    path = MOVED.get(path, path)
    return _module(f"{_API}.{path}") or _module(f"{_SOURCES}.{path}")


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return None
        raise


def _image_dim_ordering() -> str:
    return "th" if _backend().image_data_format() == "channels_first" else "tf"


def _set_image_dim_ordering(ordering: str) -> None:
    _backend().set_image_data_format("channels_first" if ordering == "th" else "channels_last")


def _backend() -> Any:
    return importlib.import_module(f"{_API}.backend")


def _moved_function(where: str, name: str) -> Lookup:
    """A function that tf_keras has, but does not export."""

    def find(label: str) -> Any:
        substitution(label, f"{_SOURCES}.{where}.{name}")
        return getattr(importlib.import_module(f"{_SOURCES}.{where}"), name)

    return find


def _own(value: Any, where: str) -> Lookup:
    """Something of ours in the place of what tf_keras has."""

    def find(label: str) -> Any:
        substitution(label, where)
        return value

    return find


# Further names of these modules of Keras 2; those that only the standalone Keras had are below.
_MORE: dict[str, dict[str, Lookup]] = {
    "backend": {
        "image_dim_ordering": _own(_image_dim_ordering, "made of tf_keras' image_data_format"),
        "set_image_dim_ordering": _own(
            _set_image_dim_ordering, "made of tf_keras' set_image_data_format"
        ),
    },
    "layers": {"get_source_inputs": _moved_function("utils.layer_utils", "get_source_inputs")},
    "utils": {
        "convert_all_kernels_in_model": _moved_function(
            "utils.layer_utils", "convert_all_kernels_in_model"
        ),
        "get_file": _own(
            data_sets.get_file, "tf_keras.utils.get_file, which looks in --data first"
        ),
    },
    # They report themselves, with the file.
    "datasets.fashion_mnist": {"load_data": lambda label: data_sets.fashion_mnist},
    "datasets.mnist": {"load_data": lambda label: data_sets.mnist},
}
_STANDALONE: dict[str, dict[str, Lookup]] = {
    "optimizers": {
        name: _own(kind, f"tf_keras.optimizers.legacy.{name} with the defaults of Keras 2")
        for name, kind in optimizers.BY_NAME.items()
    },
}


def view(label: str, path: str, child: Lookup) -> View | None:
    """The module that the script calls `label`, keras or tf.keras, or None where none is left.

    `child` makes the views of the modules in it.
    """
    module = importlib.import_module(_API) if not path else find_module(path)
    if module is None:
        return None
    public = MOVED.get(path, path)
    more = dict(_MORE.get(public, {}))
    if label.startswith("keras"):
        more.update(_STANDALONE.get(public, {}))
    now = f"tf_keras.{public}".rstrip(".")
    lookup = ModuleLookup(label, module, now, None, more)

    def find(name: str) -> Any:
        inner = f"{path}.{name}".lstrip(".")
        is_module = inner in MOVED or isinstance(getattr(module, name, None), ModuleType)
        return child(inner) if is_module else lookup(name)

    return View(label, label, find)
