# SPDX-License-Identifier: Apache-2.0
"""The wheel alone is a working horovodrun on a machine without compiler or -dev packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
import zlib
from email import message_from_bytes
from pathlib import Path

import pytest

NEWEST_TAG = 34

SUM_OVER_RANKS = """
import ctypes, os, horovod.common.library as binding
from horovod.common.basics import HorovodBasics
world = HorovodBasics()
world.init()
print("rank", world.rank(), "of", world.size(), "through", binding.library.path)
world.shutdown()
"""


@pytest.fixture(scope="module")
def wheel(root) -> Path:
    result = subprocess.run(
        [root / "scripts/wheel.sh"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout
    (path,) = (root / "dist").glob("horovod-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """A fresh virtual environment that has the wheel and not even pip."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", folder, "install", "-q", "--no-deps", wheel],
        check=True,
        timeout=120,
    )
    return folder


def run_inside(environment: Path, *command: str) -> str:
    """Runs a command that can reach nothing but the environment's own programs."""
    result = subprocess.run(
        [environment / "bin" / command[0], *command[1:]],
        env={"PATH": str(environment / "bin")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_the_tag_promises_no_newer_system_than_manylinux_2_34(wheel):
    match = re.fullmatch(
        r"horovod-(\d+)\.(\d+)\.\d+-py3-none-manylinux_2_(\d+)_x86_64\.whl", wheel.name
    )

    assert match, wheel.name
    assert (int(match[1]), int(match[2])) >= (0, 29)
    assert int(match[3]) <= NEWEST_TAG


def test_auditwheel_agrees_with_the_tag(wheel):
    report = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout

    tag = re.search(r'platform\s+tag:\s+"([^"]+)"', report)
    assert tag and tag[1] in wheel.name, report


def test_the_metadata_name_the_version_and_one_dependency(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (item for item in archive.namelist() if item.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))

    assert metadata["Name"] == "horovod"
    assert metadata["Version"] == (root / "VERSION").read_text().strip()
    extras = {
        "notebook": ("ipykernel", "nvidia-ml-py", "psutil"),
        "spark": ("cryptography", "pandas", "pyarrow", "pyspark>=3.5"),
    }
    assert metadata.get_all("Requires-Dist") == [
        "cloudpickle",
        *(f"{name}; extra == '{extra}'" for extra, names in extras.items() for name in names),
    ]
    assert metadata.get_all("Provides-Extra") == list(extras)


def test_the_names_of_databricks_are_a_wheel_of_their_own(wheel, root, tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    version = (root / "VERSION").read_text().strip()
    sparkdl = root / f"dist/sparkdl-{version}-py3-none-any.whl"
    target = ("--target", tmp_path, "--no-deps", "--no-index", "-q")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *target, sparkdl], check=True, timeout=120
    )

    program = "from sparkdl import HorovodRunner; print(HorovodRunner.__module__)"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout

    assert printed == "horovod.spark.runner\n"
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.startswith("sparkdl")]


def test_the_kernels_for_gpus_take_less_than_3_mb(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/libhorovod.so"))
        library = archive.read(name)
    folder = root / "build/release/collectives/ptx"
    kernels = [path.read_bytes() for kind in ("ptx", "cubin") for path in folder.glob("*." + kind)]
    if not kernels:
        pytest.skip("a build without nvcc has no kernels")

    assert all(each in library for each in kernels)
    assert sum(len(zlib.compress(each)) for each in kernels) < 3_000_000


def test_the_licence_of_everything_that_is_linked_is_inside(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        licences = {
            Path(item).name: archive.read(item)
            for item in archive.namelist()
            if "/licenses/" in item
        }
        (name,) = (item for item in archive.namelist() if item.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    linked = set(re.findall(r"/usr/lib/\S+\.a\b", (root / "build/release/build.ninja").read_text()))
    told = subprocess.run(
        ["dpkg", "-S", *sorted(linked)], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    # And what the compiler adds by itself.
    packages = {"libc6-dev", "libgcc-12-dev", "libstdc++-12-dev"}
    packages |= {line.split(":")[0] for line in told.splitlines()}

    assert {"libssh2-1-dev", "libssl-dev", "zlib1g-dev", "libsodium-dev"} <= packages
    for package in packages:
        text = Path(f"/usr/share/doc/{package}/copyright").read_bytes()
        assert text in licences.values(), package
    assert sorted(metadata.get_all("License-File")) == sorted(licences)
    assert b"GNU LESSER GENERAL PUBLIC LICENSE" in licences["LICENSE.LGPL-2.1"]


def test_nothing_of_the_build_machine_is_inside(wheel, root):
    with zipfile.ZipFile(wheel) as archive:
        places = [item for item in archive.namelist() if str(root).encode() in archive.read(item)]

    assert places == []


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_plugin_for_an_mpi_is_inside_and_needs_none(wheel, tmp_path, mpi):
    with zipfile.ZipFile(wheel) as archive:
        names = [item for item in archive.namelist() if item.endswith(f"/hvd_mpi_{mpi}.so")]
        assert len(names) == 1, names
        plugin = archive.extract(names[0], tmp_path)

    dynamic = subprocess.run(
        ["readelf", "-d", plugin], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert "libc.so.6" in needed
    assert not [name for name in needed if "mpi" in name]


MPI_WORLD = """
import horovod.common.basics
world = horovod.common.basics.HorovodBasics()
world.init()
print(f"rank {world.rank()} of {world.size()} by MPI: {world.mpi_enabled()} end\\n", end="")
world.shutdown()
"""


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpiexec.hydra"])
def test_tensors_of_the_wheel_travel_by_the_mpi_of_the_machine(environment, mpirun):
    options = ("--oversubscribe", "--bind-to", "none") if mpirun == "mpirun.openmpi" else ()

    result = subprocess.run(
        [mpirun, *options, "-n", "2", environment / "bin/python", "-c", MPI_WORLD],
        env={
            "PATH": f"{environment}/bin:/usr/bin:/bin",
            "HOROVOD_CPU_OPERATIONS": "mpi",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    for rank in range(2):
        assert f"rank {rank} of 2 by MPI: True end" in result.stdout


def test_horovodrun_starts_ranks_with_nothing_else_on_the_path(environment):
    text = run_inside(environment, "horovodrun", "-np", "2", "python", "-c", SUM_OVER_RANKS)

    for rank in range(2):
        assert f"rank {rank} of 2 through {environment}/lib/libhorovod.so" in text


def test_hvd_bench_finds_its_library(environment):
    assert "--collective" in run_inside(environment, "hvd-bench", "--help")


def test_check_build_works_without_any_framework(environment):
    assert "[X] Gloo" in run_inside(environment, "horovodrun", "--check-build")
