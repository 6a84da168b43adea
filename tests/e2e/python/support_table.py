# SPDX-License-Identifier: Apache-2.0
"""The support table of runtime/python/support: how it is read, and how an object is written in it.

`python tests/e2e/python/support_table.py MODULE...` prints the sections of modules as they are.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from horovod.common.process_sets import global_process_set

HERE = "yes"  # what stands in the last column of everything that works
_ROW = re.compile(r"\| `([\w.]+)` \|(?: `(.*)`)? +\| (.+) \|")


@dataclass(frozen=True)
class Row:
    """One name of a module."""

    module: str
    name: str
    signature: str
    stands: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


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
        found = getattr(found, part)
    return found


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
        if inspect.isclass(value) and value.__module__.startswith("horovod"):
            for method, function in sorted(vars(value).items()):
                is_method = inspect.isfunction(function) or isinstance(function, classmethod)
                if is_method and not method.startswith("_"):
                    yield _line_of(f"{name}.{method}", getattr(value, method))
    yield ""


def _line_of(name: str, value: Any) -> str:
    text = describe(value)
    return f"| `{name}` | {f'`{text}`' if text else ''} | {HERE} |"


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print("\n".join(lines_of(wanted)))
