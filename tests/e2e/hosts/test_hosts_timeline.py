# SPDX-License-Identifier: Apache-2.0
"""--timeline-all on two hosts whose steady clocks differ, and `horovodrun timeline`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import wording

pytest.importorskip("torch", reason="PyTorch is not installed")

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds
AHEAD_S = 1000  # the clock of the second host
CLOSE_US = 20_000  # a loaded machine measures worse than a network

# No rank ends an allreduce before all have begun it, so all end it at nearly one time.
TRAIN = """
import time
import torch
import horovod.torch as hvd

hvd.init()
for step in range(12):
    hvd.allreduce(torch.ones(10), name="grad")
    time.sleep(0.1)
"""


def other_clock() -> tuple[str, ...]:
    """Before a command: its steady clock is another."""
    prefix = ("unshare", "--time", "--monotonic", str(AHEAD_S))
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, timeout=20)
    if tried.returncode != 0:
        pytest.skip(f"no time namespace here: {tried.stderr.strip()}")
    return prefix


@pytest.fixture
def hosts(cluster):
    made = cluster(2)
    made.head.path("/root/train.py").write_text(TRAIN)
    return made


def train(hosts, *flags: str):
    found = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return hosts.run(
        *("-np", 4, "-H", "h1:2,h2:2", "--wrap", " ".join(other_clock()), *flags),
        *("--timeline-all", "/root/traces", sys.executable, "/root/train.py"),
        env={**found, "OMP_NUM_THREADS": "1"},
    )


def merged(hosts, file: Path) -> dict:
    job = hosts.run("timeline", "/root/traces", "-o", "/root/merged.json")
    assert job.code == 0, job.err
    trace = json.loads(file.read_text())
    assert [
        wording.line(wording.TIMELINE, text=one) for one in trace["otherData"]["warnings"]
    ] == job.said
    return trace


def ends(trace: dict, rank: int) -> list[float]:
    """When each allreduce of the rank was done."""
    return [
        event["ts"]
        for event in trace["traceEvents"]
        if event["pid"] == rank and event["ph"] == "E" and "args" in event
    ]


def farthest(trace: dict) -> float:
    """How far apart the ranks end an allreduce, in microseconds: the median over all of them."""
    rounds = zip(*(ends(trace, rank) for rank in range(4)), strict=True)
    return sorted(max(times) - min(times) for times in rounds)[6]


def test_ranks_of_hosts_with_different_clocks_are_aligned_by_what_was_measured(hosts):
    job = train(hosts)
    assert job.code == 0, job.err
    folder = hosts.head.path("/root/traces")
    starts = [json.loads((folder / f"rank-{rank}.json").read_text())[0] for rank in range(4)]
    steady = [start["args"]["start_monotonic_micros"] for start in starts]
    assert steady[2] - steady[0] > (AHEAD_S - 60) * 1e6  # they do differ
    (other,) = json.loads((folder / "hosts.json").read_text())["hosts"][1:]
    assert other["ranks"] == "2-3"
    assert all(abs(ahead - AHEAD_S * 1e9) < CLOSE_US * 1e3 for _, ahead, _ in other["samples_ns"])

    trace = merged(hosts, hosts.head.path("/root/merged.json"))

    about = trace["otherData"]
    assert about["warnings"] == []
    assert about["clocks"] == {f"rank {rank}": ("same", "measured")[rank // 2] for rank in range(4)}
    names = {
        event["pid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event.get("name") == "process_name"
    }
    assert names == {rank: f"rank {rank} (h{rank // 2 + 1})" for rank in range(4)}
    assert {event["pid"] for event in trace["traceEvents"]} == set(range(4))
    assert farthest(trace) < CLOSE_US

    # Wall clocks, which simulated hosts have in common, where nobody measured.
    (folder / "hosts.json").unlink()
    trace = merged(hosts, hosts.head.path("/root/merged.json"))
    assert set(trace["otherData"]["clocks"].values()) == {"wall"}
    assert wording.WALL_CLOCKS in trace["otherData"]["warnings"][-1]
    assert farthest(trace) < CLOSE_US


def test_a_killed_horovodrun_leaves_what_it_has_measured(hosts):
    flags = ("-np", 2, "-H", "h1:1,h2:1", "--wrap", " ".join(other_clock()))
    files = ("--timeline-all", "/root/traces", "sh", "-c", "echo up; sleep 60")
    with hosts.start(*flags, *files) as job:
        job.wait_for(b"up")
        file = hosts.head.path("/root/traces/hosts.json")
        job.wait_until(file.exists, "hosts.json")
        job.signal(9)
        job.end()
    (other,) = json.loads(file.read_text())["hosts"][1:]
    assert other["samples_ns"]
    hosts.wait_until_clean(5)


def test_a_folder_that_cannot_be_written_harms_no_job(hosts):
    hosts.head.path("/root/traces").write_text("no folder")
    job = hosts.run(*("-np", 2, "-H", "h1:1,h2:1", "--timeline-all", "/root/traces", "true"))
    assert job.code == 0
    (said,) = [line for line in job.said if "--timeline-all" in line]
    assert "/root/traces/hosts.json" in said and wording.WALL_CLOCKS in said
