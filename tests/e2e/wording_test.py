# SPDX-License-Identifier: Apache-2.0
"""A sentence that users read is pinned in wording.py and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import wording

FOLDER = Path(__file__).parent
SENTENCES = {name: text for name, text in vars(wording).items() if name.isupper()}
MANY_WORDS = 5  # fewer may be said by anything


@pytest.fixture(scope="module")
def others() -> dict[str, str]:
    """The texts of all other tests, in which a string's parts on several lines are one."""
    files = (file for file in FOLDER.rglob("*.py") if file.name != "wording.py")
    return {
        str(file.relative_to(FOLDER)): re.sub(r'"\s*\n\s*[rbf]*"', "", file.read_text())
        for file in files
    }


def test_no_other_test_has_a_sentence_of_wording(others):
    parts = (part for text in SENTENCES.values() for part in re.split(r"\{\w+\}", text))
    long = [part for part in parts if len(part.split()) >= MANY_WORDS]

    assert len(long) > 50
    found = [(file, part) for file, text in others.items() for part in long if part in text]
    assert found == []


def test_each_sentence_is_used(others):
    own = re.findall(r"\w+", (FOLDER / "wording.py").read_text())  # one may be part of another
    used = re.findall(r"wording\.(\w+)", "".join(others.values()))

    assert [name for name in SENTENCES if name not in used and own.count(name) == 1] == []
