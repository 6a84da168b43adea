# SPDX-License-Identifier: Apache-2.0
"""The benchmarks run and write what they promise. Their figures are not judged here."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEADER = "collective,dtype,op,bytes,ranks,mode,time_us,algbw,busbw,errors"


@pytest.fixture(scope="module")
def bench(horovodrun: Path) -> Path:
    return horovodrun.with_name("hvd-bench")


@pytest.fixture(scope="module")
def build(horovodrun: Path, root: Path) -> Path:
    """The build folder, which has the programs to compare with."""
    return horovodrun.parent.parent if "HVD_BIN" in os.environ else root / "build/release"


COLLECTIVES = ("allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier")


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_table_and_the_same_as_csv(launcher, bench, tmp_path, collective):
    file = tmp_path / "bench.csv"
    flags = ("--collective", collective, "-e", "1K", "-n", 20, "--csv", file)

    job = launcher.run("-np", 2, bench, *flags)

    assert job.code == 0, job.err
    text = file.read_text()
    assert text.splitlines()[0] == HEADER
    rows = list(csv.DictReader(text.splitlines()))
    shares = [16, 64, 256, 1024]  # 4 bytes cannot be shared by two ranks
    sizes = {"barrier": [0], "alltoall": shares, "reducescatter": shares}.get(
        collective, [4, *shares]
    )
    lines = [(mode, str(size)) for mode in ("loop", "touch") for size in sizes]
    assert [(row["mode"], row["bytes"]) for row in rows] == lines
    for row in rows:
        op = "sum" if "reduce" in collective else "-"
        assert (row["collective"], row["dtype"], row["op"]) == (collective, "float32", op)
        assert (row["ranks"], row["errors"]) == ("2", "0")
        assert float(row["time_us"]) > 0
    shown = [line.removeprefix("[0]<stdout>:").split() for line in job.lines]
    assert [(words[1], words[0]) for words in shown if words[0] != "#" and "#" not in words[0]] == (
        lines
    )


def test_the_table_as_json_has_the_lines_of_the_csv_file(launcher, bench, tmp_path):
    csv_file, json_file = tmp_path / "bench.csv", tmp_path / "bench.json"
    flags = ("-b", 8, "-e", 32, "-f", 2, "-n", 5, "-w", 1, "-o", "max", "-d", "double")

    job = launcher.run("-np", 2, bench, *flags, "--csv", csv_file, "-J", json_file)

    assert job.code == 0, job.err
    table = json.loads(json_file.read_text())
    assert (table["collective"], table["dtype"], table["op"]) == ("allreduce", "float64", "max")
    assert table["ranks"] == 2
    rows = list(csv.DictReader(csv_file.read_text().splitlines()))
    assert [line["bytes"] for line in table["lines"]] == [8, 16, 32] * 2
    columns = ("mode", "bytes", "time_us", "algbw", "busbw", "errors")
    for line, row in zip(table["lines"], rows, strict=True):
        assert [float(row[name]) for name in columns[1:]] == [line[name] for name in columns[1:]]
        assert row["mode"] == line["mode"]


def test_bandwidths_follow_from_bytes_and_time(launcher, bench, tmp_path):
    file = tmp_path / "bench.csv"

    job = launcher.run("-np", 2, bench, "-b", "1M", "-e", "1M", "-n", 3, "--csv", file)

    assert job.code == 0, job.err
    for row in csv.DictReader(file.read_text().splitlines()):
        gigabytes_per_second = int(row["bytes"]) / float(row["time_us"]) / 1000
        assert float(row["algbw"]) == pytest.approx(gigabytes_per_second, rel=0.01, abs=1e-4)
        assert float(row["busbw"]) == pytest.approx(gigabytes_per_second, rel=0.01, abs=1e-4)


def test_what_the_benchmark_does_not_know_is_refused(bench, tmp_path):
    def run(*flags: str) -> tuple[int, str]:
        command = [bench, *flags]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stderr

    assert run("--mode", "both") == (2, "hvd-bench: --mode 'both': expected loop, touch\n")
    assert run("4M") == (2, "hvd-bench: '4M' is no flag; see hvd-bench --help\n")
    code, error = run("-e", "4", "--csv", str(tmp_path / "none/bench.csv"))
    assert (code, error) == (1, f"hvd-bench: cannot write {tmp_path}/none/bench.csv\n")


def test_a_file_that_is_not_written_whole_and_an_empty_table_are_failures(bench):
    def run(*flags: str) -> tuple[int, str]:
        command = [bench, *flags]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return ended.returncode, ended.stderr

    for flag in ("--csv", "-J"):
        said = "hvd-bench: cannot write all of /dev/full\n"
        assert run("-e", "4", "-n", "2", flag, "/dev/full") == (1, said)
    code, error = run("-d", "double", "-e", "4")
    assert code == 1
    assert error.startswith("hvd-bench: from --minbytes '4' to --maxbytes '4' no size has an elem")


def figures(root: Path, name: str, result: Path, *flags: object) -> Any:
    """What a benchmark wrote. Its exit code says only whether the goals were met."""
    command = [sys.executable, root / "tests/bench" / name, "--json", result, *flags]
    ended = subprocess.run(
        [*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode in (0, 1) and result.exists(), ended.stdout + ended.stderr
    return json.loads(result.read_text())


def test_launch_measures_all_launchers(root, horovodrun, tmp_path):
    flags = ("--bin", horovodrun.parent, "--np", 1, "--rounds", 1)

    found = figures(root, "launch", tmp_path / "launch.json", *flags)

    assert found["missing"] == []
    assert {"bare loop", "horovodrun", "hydra", "mpirun", "torchrun"} <= set(found["seconds"])
    assert all(seconds["1"][0] > 0 for seconds in found["seconds"].values())


def test_allreduce_without_its_peer_names_the_command_that_builds_it(root, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/hvd-bench").touch()
    command = [sys.executable, root / "tests/bench/collectives", "--bin", tmp_path]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert ended.returncode == 2
    assert f"cmake --build {tmp_path} --target against_mpi" in ended.stderr


def test_collectives_measures_open_mpi_and_gloo_too(root, build, tmp_path):
    flags = ("--bin", build, "--rounds", 1, "--ranks", 2, "--max", 4096)

    rows = figures(root, "collectives", tmp_path / "collectives.json", *flags)

    found = {(row["peer"], row["case"]) for row in rows}
    assert {(peer, "alltoall") for peer in ("mpi", "gloo")} <= found
    assert {("mpi", "batch_of_1000"), ("gloo", "calls_1000"), ("gloo", "resnet50")} <= found
    assert all(row["horovod_us"] > 0 and row["peer_us"] > 0 for row in rows)
    assert {row["ranks"] for row in rows} == {2}


def test_train_measures_plain_pytorch_and_ddp_too(root, tmp_path):
    flags = ("--models", "cnn", "--rounds", 1, "--seconds", 0.2, "--batch-size", 4)

    found = figures(root, "train", tmp_path / "train.json", *flags)

    (figures_of_jobs,) = found["cnn"]["rounds"]
    assert set(figures_of_jobs) == {"plain", "ddp", "timeline"}
    assert figures_of_jobs["timeline"]["timeline_bytes_per_step"] > 0
    assert all(ratio > 0 for ratio in found["cnn"]["ratios"].values())
