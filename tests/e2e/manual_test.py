# SPDX-License-Identifier: Apache-2.0
"""The user manual in apps/horovodrun has the flags and exit codes of `horovodrun --help all`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

FLAG = r"(?<![\w-])--?[a-z][a-z-]*(?![\w-])"


@pytest.fixture(scope="module")
def manual(root) -> str:
    return (root / "apps/horovodrun/README.md").read_text()


@pytest.fixture(scope="module")
def help_text(horovodrun) -> str:
    return read_help(horovodrun, "all")


def read_help(horovodrun: Path, topic: str) -> str:
    return subprocess.run(
        [horovodrun, "--help", topic], check=True, capture_output=True, text=True, timeout=30
    ).stdout


def section(text: str, title: str) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def flags_of_help(text: str) -> set[str]:
    lines = re.findall(r"^  (-\S.*?)(?:  |$)", text, re.MULTILINE)
    return {flag for line in lines for flag in re.findall(FLAG, line)}


def flags_of_manual(text: str) -> set[str]:
    lines = re.findall(r"^- `(.+?)`: ", section(text, "Flags"), re.MULTILINE)
    return {flag for line in lines for flag in re.findall(FLAG, line)}


def test_the_manual_lists_the_flags_of_the_help_and_no_others(manual, help_text):
    flags = flags_of_help(help_text)

    assert {"-np", "--dry-run", "-prefix-timestamp", "--json", "-cb"} <= flags
    assert flags_of_manual(manual) == flags


def test_the_chapter_about_flags_is_that_of_the_program(manual, horovodrun):
    chapter = section(manual, "Flags").strip()

    assert chapter == read_help(horovodrun, "markdown").strip(), "run scripts/manual.py"


def test_the_manual_lists_the_exit_codes_of_the_help(manual, help_text):
    (sentence,) = re.findall(r"^Exit codes: (.*)", help_text, re.MULTILINE | re.DOTALL)
    codes = set(re.findall(r"(?:^|[,;] |\n)(\d+)\s(?!\+)", sentence))
    rows = re.findall(r"^\| (`.*?`) \|", section(manual, "Exit codes"), re.MULTILINE)
    listed = {code for row in rows for code in re.findall(r"`(\d+)`", row)}

    assert {"2", "124", "125", "126", "127", "141"} <= codes
    assert codes - listed == set()
    assert listed - codes == {"0", "1", "255"}
    assert "`128 + n`" in rows


def test_every_page_that_the_manual_links_to_exists(manual, root):
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", manual)

    assert links
    assert {link for link in links if not (root / "apps/horovodrun" / link).exists()} == set()


def test_the_man_page_is_installed_where_the_build_has_its_converter(prefix, root):
    page: Path = prefix / "share/man/man1/horovodrun.1"
    if not page.is_file():
        cache = (root / "build/release/CMakeCache.txt").read_text()
        assert "HVD_LOWDOWN:FILEPATH=HVD_LOWDOWN-NOTFOUND" in cache
        return
    text = page.read_text()

    assert text.index("horovodrun - start") < text.index("Exit codes")
    assert "--summary" in text.replace("\\-", "-")
