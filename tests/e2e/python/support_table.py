# SPDX-License-Identifier: Apache-2.0
"""The support table of runtime/python/support: how it is read, and how an object is written in it.

`python tests/e2e/python/support_table.py MODULE...` prints the sections of modules as they are.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from horovod.common.process_sets import global_process_set

HERE = "yes"  # what stands in the last column of everything that works
_ROW = re.compile(r"\| `([\w.()]+)` \|(?: `(.*)`)? +\| (.+) \|")

_GENERATED = re.compile("[gs]et[A-Z]")  # an estimator's, one pair for each parameter

# `DistributedOptimizer().step` is a method of what the function returns: an object of the class
# that it was given, with this one in front of it.
_KERAS = "horovod._keras.wrappers:DistributedBase"
_RETURNED = {
    "horovod.torch.DistributedOptimizer": "horovod.torch.gradient_optimizer:GradientOptimizer",
    "horovod.tensorflow.DistributedOptimizer": _KERAS,
    "horovod.tensorflow.DistributedGradientTape": (
        "horovod.tensorflow.gradient_tape:_DistributedTape"
    ),
    "horovod.tensorflow.PartialDistributedGradientTape": (
        "horovod.tensorflow.gradient_tape:_DistributedTape"
    ),
    "horovod.tensorflow.keras.DistributedOptimizer": _KERAS,
    "horovod.tensorflow.keras.PartialDistributedOptimizer": _KERAS,
    "horovod.keras.DistributedOptimizer": _KERAS,
    "horovod.keras.PartialDistributedOptimizer": _KERAS,
}


@dataclass(frozen=True)
class Row:
    """One name of a module."""

    module: str
    name: str
    signature: str
    stands: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def works(self) -> bool:
        """What stands behind a colon is a remark."""
        return self.stands.split(":")[0] == HERE


def read(file: Path) -> list[Row]:
    """The rows of a file: `## module` begins the table of a module."""
    rows = []
    module = ""
    for line in file.read_text().splitlines():
        if line.startswith("## "):
            module = line.removeprefix("## ").strip("`")
        match = _ROW.fullmatch(line)
        if match:
            rows.append(Row(module, match[1], match[2] or "", match[3]))
    return rows


def find(row: Row) -> Any:
    """What the row speaks of. Raises ImportError or AttributeError where it does not exist."""
    found: Any = importlib.import_module(row.module)
    for part in row.name.split("."):
        is_returned = part.endswith("()")
        found = returned(f"{row.module}.{part[:-2]}") if is_returned else getattr(found, part)
    return found


def returned(function: str) -> Any:
    """The class with what the objects that a function returns have beside their own."""
    module, name = _RETURNED[function].split(":")
    return getattr(importlib.import_module(module), name)


def unread(value: Any) -> set[str]:
    """The parameters of a function that it never reads; of a class: of its constructor."""
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        return set()
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    if not isinstance(tree, ast.FunctionDef):  # a lambda
        return set()
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    read = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    if "locals" in read:
        return set()
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    arguments += [one for one in (tree.args.vararg, tree.args.kwarg) if one is not None]
    return {one.arg for one in arguments} - read - {"self", "cls"}


def describe(value: Any) -> str:
    """A call's signature without types, a constant's value, nothing for other objects."""
    if isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, ModuleType) or not callable(value) or _is_plain_error(value):
        return ""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_default(parameter.default))
        for parameter in inspect.signature(value).parameters.values()
    ]
    return str(inspect.Signature(parameters))


def _is_plain_error(value: Any) -> bool:
    """An exception that takes what all exceptions take."""
    is_error = inspect.isclass(value) and issubclass(value, BaseException)
    return is_error and "__init__" not in vars(value)


class _Word:
    """A default as it is written in a program."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _default(value: Any) -> Any:
    if value is global_process_set:
        return _Word("global_process_set")
    if inspect.isclass(value) and value.__name__.endswith("Compressor"):
        return _Word(f"Compression.{value.__name__.removesuffix('Compressor').lower()}")
    if inspect.isclass(value) and value is not inspect.Parameter.empty:
        return _Word(value.__qualname__)
    return value


def public_names(module: ModuleType) -> list[str]:
    """What a module exports: `__all__`, or the functions and classes that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def lines_of(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    yield f"## `{module_name}`\n"
    yield "| Name | Signature or value | Works |"
    yield "|---|---|---|"
    for name in sorted(public_names(module)):
        value = getattr(module, name)
        yield _line_of(name, value)
        for method in methods(module_name, name, value):
            owner = value if inspect.isclass(value) else returned(f"{module_name}.{name}")
            call = "" if inspect.isclass(value) else "()"
            yield _line_of(f"{name}{call}.{method}", getattr(owner, method))
    yield ""


def methods(module: str, name: str, value: Any) -> list[str]:
    """The methods that a class of horovod defines, or the objects that a function returns have."""
    owner = value
    if f"{module}.{name}" in _RETURNED:
        owner = returned(f"{module}.{name}")
    elif not inspect.isclass(value) or not value.__module__.startswith("horovod"):
        return []
    kinds = (classmethod, staticmethod)
    return [
        method
        for method, function in sorted(vars(owner).items())
        if (inspect.isfunction(function) or isinstance(function, kinds))
        and not _is_inherited(owner, method)
        and not method.startswith("_")
        and not _GENERATED.match(method)
    ]


def _is_inherited(owner: type, method: str) -> bool:
    """Whether the method is that of a base. PyTorch wraps it in the class of an optimizer."""
    own = inspect.unwrap(vars(owner)[method])
    return any(inspect.unwrap(vars(base).get(method, id)) is own for base in owner.__mro__[1:])


def _line_of(name: str, value: Any) -> str:
    text = describe(value)
    return f"| `{name}` | {f'`{text}`' if text else ''} | {HERE} |"


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print("\n".join(lines_of(wanted)))
