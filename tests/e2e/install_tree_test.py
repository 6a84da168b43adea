# SPDX-License-Identifier: Apache-2.0
"""The installed programs and libraries need nothing that a user's machine may lack."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = ("bin/horovodrun", "bin/hvd-bench", "libexec/horovod/hvd-gpu-probe")
AGENT = "libexec/horovod/hvd-agent"
LIBRARIES = (
    "lib/libhorovod.so",
    "lib/libhorovod_tf.so",
    "lib/horovod/hvd_mpi_openmpi.so",
    "lib/horovod/hvd_mpi_mpich.so",
)
ANYWHERE = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
USE_LIBHOROVOD = {"bin/hvd-bench", "lib/libhorovod_tf.so"}
NEWEST_GLIBC = (2, 34)


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def exported(library: Path) -> set[str]:
    lines = output("nm", "--dynamic", "--defined-only", "--format=posix", library).splitlines()
    return {line.split()[0].split("@")[0] for line in lines}


def dynamic_entries(file: Path, tag: str) -> set[str]:
    return set(re.findall(rf"\({tag}\).*\[(.*)\]", output("readelf", "--dynamic", "--wide", file)))


def test_libhorovod_exports_the_functions_of_hvd_h_and_nothing_else(prefix):
    header = (prefix / "include/hvd/hvd.h").read_text()

    declared = set(re.findall(r"^HVD_API\s[^;(]*?\b(hvd_\w+)\(", header, re.MULTILINE))

    assert len(declared) > 20
    assert exported(prefix / "lib/libhorovod.so") == declared


def test_the_tensorflow_library_exports_only_its_own_prefix(prefix):
    names = exported(prefix / "lib/libhorovod_tf.so")

    assert names
    assert {name for name in names if not name.startswith("hvd_tf_")} == set()


@pytest.mark.parametrize("name", PROGRAMS + LIBRARIES)
def test_only_the_c_library_and_libgcc_are_needed(prefix, name):
    allowed = ANYWHERE | ({"libhorovod.so"} if name in USE_LIBHOROVOD else set())

    assert dynamic_entries(prefix / name, "NEEDED") - allowed == set()


@pytest.mark.parametrize("name", PROGRAMS + LIBRARIES)
def test_no_symbol_is_newer_than_glibc_2_34(prefix, name):
    versions = set(
        re.findall(r"\b(GLIBC(?:XX)?|CXXABI)_([\d.]+)", output("objdump", "-T", prefix / name))
    )

    assert {kind for kind, _ in versions} == {"GLIBC"}
    newest = max(tuple(int(part) for part in number.split(".")) for _, number in versions)
    assert newest <= NEWEST_GLIBC


@pytest.mark.parametrize("name", (*PROGRAMS, *LIBRARIES, AGENT))
def test_libraries_are_found_by_their_place_and_never_in_a_build_directory(prefix, name):
    runpath = dynamic_entries(prefix / name, "R(?:UN)?PATH")

    assert all(path.startswith("$ORIGIN") for entry in runpath for path in entry.split(":"))


def test_the_agent_is_a_static_file_for_every_distribution(prefix):
    segments = output("readelf", "--program-headers", "--wide", prefix / AGENT)

    assert "LOAD" in segments
    assert "INTERP" not in segments
    assert dynamic_entries(prefix / AGENT, "NEEDED") == set()


def test_plugins_for_both_abis_of_mpi_have_their_folder(prefix):
    plugins = {file.name for file in (prefix / "lib/horovod").iterdir()}

    assert {"hvd_mpi_openmpi.so", "hvd_mpi_mpich.so"} <= plugins


def test_the_version_is_that_of_the_file(prefix, root):
    version = (root / "VERSION").read_text().strip()

    assert output(prefix / "bin/horovodrun", "--version").strip() == version
    assert tuple(int(part) for part in version.split(".")) >= (0, 29)
