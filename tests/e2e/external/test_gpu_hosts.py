# SPDX-License-Identifier: Apache-2.0
"""Tensors of GPUs on two simulated hosts that NCCL cannot connect, on stand-ins for the CUDA driver
and NCCL."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Ended, run_command
from support.hosts import Lab

ONE_RANK_ASKS = (
    "export HVD_FAKE_NCCL_HOST=$HOROVOD_CROSS_RANK; test $HOROVOD_RANK != 3 || "
    'export HOROVOD_HIERARCHICAL_ALLREDUCE=1; exec "$@"'
)


@pytest.fixture
def tests(root: Path) -> Path:
    """The folder of the build's tests."""
    folder = Path(os.environ.get("HVD_BIN", root / "build/release/bin")).parent / "tests"
    if not (folder / "fake_gpu/libnccl.so.2").exists():
        pytest.skip("a build without the headers of CUDA and NCCL")
    return folder


WAYS = pytest.mark.parametrize(
    "way",
    [(), ("--mpi", "mpirun.openmpi"), ("--mpi", "mpiexec.hydra")],
    ids=["tcp", "openmpi", "mpich"],
)


@pytest.fixture
def run(lab: Lab, horovodrun: Path, tests: Path) -> Callable[[tuple[str, ...], str], Ended]:
    """run(way, case): four ranks of abi_worker, two on each host."""

    def run_case(way: tuple[str, ...], case: str) -> Ended:
        by_mpi = {"HOROVOD_MPIRUN": way[1], "HOROVOD_CPU_OPERATIONS": "mpi"} if way else {}
        return run_command(
            *(*lab[0].prefix(), str(horovodrun), *way[:1], "-np", "4", "-H", "h1:2,h2:2"),
            *("--env", f"LD_LIBRARY_PATH={tests / 'fake_gpu'}"),
            *("sh", "-c", ONE_RANK_ASKS, "sh", str(tests / "abi_worker"), "rank", case),
            timeout=100,
            env=lab[0].environment(HOROVOD_LOG_LEVEL="info", **by_mpi),
        )

    return run_case


@WAYS
def test_sums_go_by_the_library_or_mpi_between_hosts(
    run: Callable[[tuple[str, ...], str], Ended], way: tuple[str, ...]
) -> None:
    ended = run(way, "device_operations")

    assert ended.code == 0, ended
    assert "libnccl.so.2, for tensors on GPUs" in ended.stderr


@WAYS
def test_nccl_connects_the_ranks_of_each_host(
    run: Callable[[tuple[str, ...], str], Ended], way: tuple[str, ...]
) -> None:
    ended = run(way, "device_second_same_gpu")  # wants NCCL's error, as of two ranks on one GPU

    assert "libnccl.so.2, for tensors on GPUs" in ended.stderr
    assert "device_second_same_gpu: " not in ended.stderr, ended
