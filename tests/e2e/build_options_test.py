# SPDX-License-Identifier: Apache-2.0
"""HVD_WITH_MPI and its like: AUTO takes what there is, ON insists, OFF leaves out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def configure(root: Path, folder: Path, *definitions: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("cmake", "--preset", "release", "-B", folder, *definitions),
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def test_what_is_off_is_left_out_of_the_summary(root, tmp_path):
    parts = ("MPI", "CUDA", "KERNELS", "NCCL", "SSH")

    made = configure(root, tmp_path, *(f"-DHVD_WITH_{part}=OFF" for part in parts))

    assert made.returncode == 0, made.stdout
    for part in parts:
        assert f"{part}: OFF (HVD_WITH_{part}=OFF)" in made.stdout


@pytest.mark.parametrize(
    ("definitions", "sentence"),
    [
        (("-DHVD_WITH_SSH=maybe",), "HVD_WITH_SSH=maybe: it must be AUTO, ON or OFF"),
        (
            ("-DHVD_WITH_SSH=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_Libssh2=ON"),
            "HVD_WITH_SSH=ON, but the package Libssh2 was not found",
        ),
    ],
)
def test_what_cannot_be_had_stops_the_configuration(root, tmp_path, definitions, sentence):
    made = configure(root, tmp_path, *definitions)

    assert made.returncode != 0
    assert sentence in " ".join(made.stdout.split())
