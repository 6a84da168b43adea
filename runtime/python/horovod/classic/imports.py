# SPDX-License-Identifier: Apache-2.0
"""What the imports of the script find."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from horovod.classic import keras_names, tensorflow_names
from horovod.classic.removed import (
    RemovedModuleError,
    RemovedNameError,
    is_package_of_the_time,
    module_error,
    package_error,
)
from horovod.classic.report import substitution
from horovod.classic.views import View

# Packages that work with TensorFlow as it is. Others are left alone unless their name begins with
# _OF_THE_TIME.
_OF_TODAY = ("horovod", "keras", "tensorflow", "tf_keras")
_OF_THE_TIME = "keras_"
_INSTALLED = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")})


class KerasFinder(Loader):
    """Finds `keras` and its modules: views of tf_keras."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        if name != "keras" and not name.startswith("keras."):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return keras_view(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Its names are looked up later."""


def keras_view(name: str) -> View:
    path = name.removeprefix("keras").lstrip(".")
    view = keras_names.view(name, path, lambda inner: importlib.import_module(f"keras.{inner}"))
    if view is None:
        raise module_error(name)
    if path in ("", "preprocessing", *keras_names.MOVED):
        substitution(name, f"tf_keras.{keras_names.MOVED.get(path, path)}".rstrip("."))
    return view


class PackageFinder:
    """Asked after all others: packages of the time that are not installed."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if is_package_of_the_time(name):
            raise package_error(name)
        return None


def _is_of_the_script(importer: dict[str, Any]) -> bool:
    """Whether a module with these globals is to see TensorFlow 1."""
    package = str(importer.get("__name__", "")).split(".")[0]
    if package in _OF_TODAY:
        return False
    file = str(importer.get("__file__") or "")
    return package.startswith(_OF_THE_TIME) or not file.startswith(_INSTALLED)


_import = builtins.__import__


def _classic_import(
    name: str,
    globals: dict[str, Any] | None = None,
    locals: dict[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    is_tensorflow = level == 0 and (name == "tensorflow" or name.startswith("tensorflow."))
    if is_tensorflow and _is_of_the_script(globals or {}):
        found = _tensorflow(name, bool(fromlist))
    else:
        found = _import(name, globals, locals, fromlist or (), level)
    if isinstance(found, View):
        _check(found, fromlist or ())
    return found


def _check(found: View, names: Sequence[str]) -> None:
    """Python's own error for a missing name has neither line nor successor."""
    for name in names:
        try:
            if name != "*":
                getattr(found, name)
        except RemovedNameError as error:
            raise RemovedModuleError(str(error), name=found.__name__) from None


def _tensorflow(name: str, has_names: bool) -> Any:
    """What `import name` finds, or the module that `from name import ...` looks in."""
    root = tensorflow_names.view()
    path = name.removeprefix("tensorflow").lstrip(".")
    found: Any = root
    try:
        for part in path.split(".") if path else ():
            found = getattr(found, part)
    except AttributeError as error:
        if importlib.util.find_spec(".".join(name.split(".")[:2])) is None:
            raise module_error(name) from error
        found = importlib.import_module(name)  # of its inside, which has no version 1
    return found if has_names else root


def view_called(label: str) -> Any:
    """The module that the program calls keras, tf.train and so on."""
    if label.startswith("tf"):
        return _tensorflow(f"tensorflow{label.removeprefix('tf')}", has_names=True)
    return importlib.import_module(label)


def install() -> None:
    """From now on imports of the script find what stands for Keras 2 and TensorFlow 1."""
    for name in [one for one in sys.modules if one == "keras" or one.startswith("keras.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, KerasFinder())  # type: ignore[arg-type]
    sys.meta_path.append(PackageFinder)  # type: ignore[arg-type]
    builtins.__import__ = _classic_import
