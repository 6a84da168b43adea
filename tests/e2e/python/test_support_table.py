# SPDX-License-Identifier: Apache-2.0
"""The support table says what there is, and no more."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest
from support_table import HERE, Row, describe, find, methods, public_names, read, unread

SUPPORT = Path(__file__).resolve().parents[3] / "runtime/python/support"
# The framework that the modules of a file need.
FRAMEWORKS = {
    "numpy": "numpy",
    "torch": "torch",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "spark": "pyspark",
}

FILES = sorted(SUPPORT.glob("*.md"))
ROWS = [pytest.param(file, row, id=str(row)) for file in FILES for row in read(file)]


def need_framework(file: Path) -> None:
    framework = FRAMEWORKS.get(file.stem)
    if framework is not None and importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")


@pytest.mark.parametrize(("file", "row"), ROWS)
def test_a_row_is_as_it_stands(file: Path, row: Row) -> None:
    need_framework(file)
    if row.stands.startswith("no"):
        with pytest.raises((ImportError, AttributeError)):
            find(row)
        return

    assert describe(find(row)) == row.signature


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_everything_that_is_exported_has_a_row(file: Path) -> None:
    need_framework(file)
    rows = read(file)
    for module in {row.module: None for row in rows if row.works}:
        listed = {row.name for row in rows if row.module == module}
        missing = set(public_names(importlib.import_module(module))) - listed
        assert not missing, f"{file.name}, {module}: {sorted(missing)}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_method_has_a_row(file: Path) -> None:
    need_framework(file)
    rows = read(file)
    listed = {str(row).replace("()", "") for row in rows}
    for row in rows:
        if row.works and "." not in row.name:
            wanted = {f"{row}.{method}" for method in methods(row.module, row.name, find(row))}
            assert wanted <= listed, sorted(wanted - listed)


# Their arguments are the caller's choice: Keras, TensorFlow, and what compresses.
INTERFACES = ("on_", "after_create_session", "compress", "decompress")


@pytest.mark.parametrize(("file", "row"), ROWS)
def test_an_argument_without_effect_is_said_to_be(file: Path, row: Row) -> None:
    need_framework(file)
    if not row.works or row.name.split(".")[-1].startswith(INTERFACES):
        return
    silent = {name for name in unread(find(row)) if f"`{name}`" not in row.stands}
    assert not silent, f"{row} never reads {sorted(silent)}, and its row says nothing of it"


def test_the_table_is_read() -> None:
    rows = [row for file in FILES for row in read(file)]

    assert Row("horovod.torch", "join", "(device=-1)", HERE) in rows
    assert {row.stands.split(":")[0] for row in rows} <= {HERE, "no", "later"}
    assert len(set(map(str, rows))) == len(rows)
