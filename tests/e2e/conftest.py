# SPDX-License-Identifier: Apache-2.0
"""What all tests of the installed tree share. They run in the environment that they test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from commands import run_command
from jobs import Launcher


@pytest.fixture(scope="session")
def prefix() -> Path:
    """Where the product is installed: HVD_TEST_PREFIX, else the environment of this Python."""
    folder = Path(os.environ.get("HVD_TEST_PREFIX", sys.prefix))
    assert (folder / "bin/horovodrun").is_file(), f"nothing is installed below {folder}"
    return folder


@pytest.fixture(scope="session")
def horovodrun(request: pytest.FixtureRequest) -> Path:
    """The program: in HVD_BIN for development builds, else the installed one."""
    folder = os.environ.get("HVD_BIN")
    return Path(folder or request.getfixturevalue("prefix") / "bin") / "horovodrun"


@pytest.fixture(scope="session")
def agent_program(horovodrun: Path) -> Path:
    """What horovodrun brings to other hosts: beside it in a build, else below its prefix."""
    folder = horovodrun.parent
    places = (folder / "hvd-agent", folder.parent / "libexec/horovod/hvd-agent")
    return next(place for place in places if place.is_file())


@pytest.fixture(scope="session")
def return_from_main(
    horovodrun: Path, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A C program whose ranks, all but one, end without hvd_shutdown."""
    program = tmp_path_factory.mktemp("programs") / "return_from_main"
    library = (horovodrun.parent.parent / "lib").resolve()
    compiled = run_command(
        *("cc", "-std=gnu11", root / "tests/e2e/programs/return_from_main.c"),
        *("-I", root / "runtime/include", "-o", program),
        *(library / "libhorovod.so", f"-Wl,-rpath,{library}"),
        timeout=60,
    )
    assert compiled.code == 0, compiled
    return program


@pytest.fixture(scope="session")
def launcher(horovodrun: Path) -> Launcher:
    return Launcher(horovodrun)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).resolve().parents[2]
