# SPDX-License-Identifier: Apache-2.0
"""Projects outside the repository find the installed package with find_package(hvd)."""

from __future__ import annotations

import subprocess
from pathlib import Path


def run(command: list[str | Path], timeout: float = 120) -> str:
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def build(source: Path, folder: Path, prefix: Path) -> None:
    run(["cmake", "-G", "Ninja", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}"])
    run(["cmake", "--build", folder])


def test_the_cpp_example_builds_and_sums_over_four_ranks(prefix, root, tmp_path):
    build(root / "examples/cpp_allreduce", tmp_path, prefix)

    text = run([prefix / "bin/horovodrun", "-np", "4", tmp_path / "allreduce"])

    assert "sum of ranks 0 to 3 on CPUs: 6" in text


def test_the_cpp_example_sums_on_gpus_where_there_are_some(prefix, root, tmp_path):
    build(root / "examples/cpp_allreduce", tmp_path, prefix)
    stand_in = root / "build/release/tests/fake_gpu"
    job = [prefix / "bin/horovodrun", "-np", "2", tmp_path / "allreduce", "--device"]

    text = run(["env", f"LD_LIBRARY_PATH={stand_in}", *job, "cuda", "1000"])
    refused = subprocess.run([*job, "cuda"], capture_output=True, text=True, timeout=60)

    assert "sum of ranks 0 to 1 on GPUs: 1" in text
    assert refused.returncode == 1
    assert "--device cuda: 0 GPUs for the 2 ranks of this machine" in refused.stderr


def test_a_c11_program_is_a_world_of_one_without_a_launcher(prefix, root, tmp_path):
    build(root / "tests/e2e/install_consumer", tmp_path, prefix)

    assert run([tmp_path / "consumer"]).splitlines() == ["rank 0 of 1", "sum 42"]
