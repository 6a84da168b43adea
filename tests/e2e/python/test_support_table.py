# SPDX-License-Identifier: Apache-2.0
"""The support table says what there is, and no more."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest
from support_table import HERE, Row, describe, find, public_names, read

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
    for module in {row.module: None for row in rows if row.stands == HERE}:
        listed = {row.name for row in rows if row.module == module}
        missing = set(public_names(importlib.import_module(module))) - listed
        assert not missing, f"{file.name}, {module}: {sorted(missing)}"


def test_the_table_is_read() -> None:
    rows = [row for file in FILES for row in read(file)]

    assert Row("horovod.torch", "join", "(device=-1)", HERE) in rows
    assert {row.stands.split(":")[0] for row in rows} <= {HERE, "no", "later"}
    assert len(set(map(str, rows))) == len(rows)
