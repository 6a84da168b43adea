# SPDX-License-Identifier: Apache-2.0
"""The pages for users and contributors name what is there: files, flags and variables."""

from __future__ import annotations

import re
import subprocess

import pytest

PAGES = ("README.md", "apps/horovodrun/README.md", "launcher/README.md", "scripts/README.md")


@pytest.fixture(scope="module")
def readme(root) -> str:
    return (root / "README.md").read_text()


@pytest.fixture(scope="module")
def manual(root) -> str:
    return (root / "apps/horovodrun/README.md").read_text()


def test_every_path_of_the_repository_exists(root):
    text = "\n".join((root / page).read_text() for page in PAGES)
    folders = "apps|launcher|runtime|collectives|scripts|examples"
    places = set(re.findall(rf"(?<![\w./-])(?:{folders})/[\w./-]*\w", text))

    assert len(places) > 20
    assert {place for place in places if not (root / place).exists()} == set()


def test_every_flag_of_horovodrun_is_in_its_help(readme, prefix):
    section = readme.split("\n## Run\n")[1].split("\n## ")[0]
    own = [re.split(r" python | cmake |^cmake", line)[0] for line in section.splitlines()]
    flags = {flag for line in own for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)}
    text = subprocess.run(
        [prefix / "bin/horovodrun", "--help", "all"],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    ).stdout

    assert "--dry-run" in flags
    assert {flag for flag in flags if flag not in text} == set()


def test_every_variable_of_the_engine_is_described(manual, root):
    table = (root / "runtime/engine/config.cpp").read_text()
    variables = re.findall(r'\{"(HOROVOD_\w+)", parse_', table)

    assert len(variables) > 4
    assert [name for name in variables if f"`{name}`" not in manual] == []


def test_every_variable_that_a_rank_finds_is_described(manual, root):
    source = (root / "launcher/plan/environment.cpp").read_text()
    body = source.split("Environment job_variables(")[1]
    variables = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', body))

    assert {"HOROVOD_CONTROLLER", "NCCL_SOCKET_IFNAME", "MASTER_PORT"} <= variables
    assert {name for name in variables if f"`{name}`" not in manual} == set()


def test_every_label_of_ctest_exists(root):
    text = (root / "scripts/README.md").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("ctest "))
    named = set(re.findall(r"-L (\w+)", line)) | set(re.findall(r"integration[\w-]*", line))
    lists = (root / "tests").rglob("CMakeLists.txt")
    labels = {
        label for file in lists for label in re.findall(r"LABEL\s+([\w-]+)", file.read_text())
    }

    assert named == labels
