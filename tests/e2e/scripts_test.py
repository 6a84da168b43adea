# SPDX-License-Identifier: Apache-2.0
"""The scripts that guard the project can fail."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
    )


@pytest.fixture
def tree(root, tmp_path) -> Path:
    """A copy of the layers' folders without files."""
    for layer in layers(root):
        (tmp_path / layer).mkdir(parents=True, exist_ok=True)
    return tmp_path


def layers(root: Path) -> dict[str, set[str]]:
    return runpy.run_path(str(root / "scripts/check_layers.py"))["TABLE"]


def check_layers(root: Path, tree: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, root / "scripts/check_layers.py", tree)


def test_the_tree_keeps_to_its_layers(root):
    result = check_layers(root, root)

    assert result.returncode == 0, result.stdout


def test_the_table_of_the_launcher_is_that_of_its_readme(root):
    def full(name: str) -> str:
        return name if name.startswith(("collectives", "launcher")) else f"launcher/{name}"

    text = (root / "launcher/README.md").read_text()
    _, _, section = text.partition("## Allowed includes\n")
    rows = re.findall(r"^\| (.+) \| (.*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    said = {
        "launcher" if folder == "the root" else full(folder.strip("`")): {
            full(name) for name in re.findall("`(.+?)`", names)
        }
        for folder, names in rows[1:]
    }

    assert said == {name: row for name, row in layers(root).items() if name.startswith("launcher")}


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        (
            "collectives/base/a.hpp",
            '#include "runtime/engine/engine.hpp"',
            "collectives/base may not use runtime/engine",
        ),
        (
            "collectives/shm/a.cpp",
            '#include "collectives/self/factory.hpp"',
            "collectives/shm may not use collectives/self",
        ),
        (
            "collectives/transport/tcp/a.cpp",
            '#include "collectives/rendezvous/tcp/session.hpp"',
            "collectives/transport/tcp may not use collectives/rendezvous/tcp",
        ),
        (
            "launcher/remote/ssh/a.cpp",
            '#include "launcher/cli/options.hpp"',
            "launcher/remote/ssh may not use launcher/cli",
        ),
        ("launcher/cli/a.cpp", "#include <hvd/hvd.h>", "may not use runtime/include"),
        ("launcher/cli/a.cpp", '#include "options.hpp"', "does not start at the root"),
        ("launcher/cli/a.cpp", "#include <launcher/cli/a.hpp>", "is first-party"),
        ("launcher/new/a.cpp", "#include <launcher/x.hpp>", "launcher/new has no row"),
        ("launcher/cli/new/a.cpp", "#include <vector>", "launcher/cli/new has no row"),
    ],
)
def test_an_include_against_the_flow_is_named(root, tree, file, line, reason):
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    (tree / file).write_text(f"{line}\n")

    result = check_layers(root, tree)

    assert result.returncode == 1
    assert reason in result.stdout
    assert result.stdout.startswith(f"{file}:")


def test_includes_that_go_forward_are_allowed(root, tree):
    (tree / "runtime/c_api/a.cpp").write_text(
        '#include <hvd/hvd.h>\n#include "runtime/engine/engine.hpp"\n#include <vector>\n'
    )

    assert check_layers(root, tree).returncode == 0


def test_a_row_without_a_folder_is_an_error(root, tree):
    (tree / "runtime/fusion").rmdir()

    result = check_layers(root, tree)

    assert (result.returncode, result.stdout) == (2, "table: runtime/fusion is no folder\n")


CTEST = """<testsuite name="x">
<testcase name="good" classname="good" status="run"><system-out/></testcase>
<testcase name="bad" classname="bad" status="fail"><failure message=""/></testcase>
<testcase name="gone" classname="gone" status="notrun">
<skipped message="Unable to find executable"/></testcase>
<testcase name="gpu" classname="gpu" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>SKIPPED: no GPU on this machine</system-out></testcase>
<testcase name="peer" classname="peer" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>SKIPPED: mpirun.openmpi is missing</system-out></testcase>
</testsuite>"""
PYTEST = """<testsuites><testsuite name="pytest">
<testcase name="test_a" classname="a_test" time="1"/>
<testcase name="test_b" classname="a_test" time="1"><skipped message="torch is missing"/></testcase>
<testcase name="test_c" classname="a_test" time="1"><error message="boom"/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("options", "last_line"),
    [([], "2 passed, 3 failed, 3 skipped"), (["--require-all"], "2 passed, 5 failed, 1 skipped")],
)
def test_results_of_ctest_and_pytest_are_added_up(root, tmp_path, options, last_line):
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)

    result = run(
        sys.executable,
        root / "scripts/count_tests.py",
        *options,
        tmp_path / "ctest.xml",
        tmp_path / "pytest.xml",
    )

    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == last_line


def test_a_missing_result_file_is_a_failure(root, tmp_path):
    (tmp_path / "pytest.xml").write_text(PYTEST.replace("<error", "<properties"))

    result = run(
        sys.executable,
        root / "scripts/count_tests.py",
        tmp_path / "ctest.xml",
        tmp_path / "pytest.xml",
    )

    assert (result.returncode, result.stdout.splitlines()[-1]) == (
        1,
        "2 passed, 1 failed, 1 skipped",
    )


def test_set_up_is_skipped_when_nothing_changed(root):
    begin = time.monotonic()

    result = run(root / "scripts/prepare.sh")

    assert result.returncode == 0, result.stdout
    assert ".venv is up to date" in result.stdout
    assert time.monotonic() - begin < 20
