# SPDX-License-Identifier: Apache-2.0
"""`horovodrun timeline` on one machine: what it writes, and what it says of bad input."""

from __future__ import annotations

import json
import sys

import pytest
import wording

TRAIN = """
import sys
import torch
import horovod.torch as hvd
hvd.init()
for _ in range(3):
    hvd.allreduce(torch.ones(4), name="grad")
"""


def trace_of(rank: int, size: int = 2, job: str = "j") -> str:
    about = {
        "start_time_since_epoch_in_micros": 5_000_000,
        "start_monotonic_micros": 1000 + rank,
        "rank": rank,
        "size": size,
        "host": "a",
        "job": job,
        "clock": "A",
    }
    return json.dumps(
        [
            {"name": "process_name", "ph": "M", "pid": 0, "args": about},
            {"ph": "B", "name": "ALLREDUCE", "ts": 1.5, "pid": 1},
        ]
    )


def test_the_traces_of_a_job_become_one(launcher, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    folder = tmp_path / "traces"
    job = launcher.run("-np", 2, "--timeline-all", folder, sys.executable, "-c", TRAIN)
    assert job.code == 0, job.err

    whole = launcher.run("timeline", folder)
    file = tmp_path / "merged.json"
    written = launcher.run("timeline", folder, "-o", file)

    assert (whole.code, whole.err) == (written.code, written.err) == (0, b"")
    assert whole.out == file.read_bytes() and written.out == b""
    trace = json.loads(whole.out)
    assert trace["otherData"]["clocks"] == {"rank 0": "same", "rank 1": "same"}
    assert trace["otherData"]["job"]
    for rank in range(2):
        done = [one for one in trace["traceEvents"] if one["pid"] == rank and one["ph"] == "B"]
        assert sum(one["name"] == "ALLREDUCE" for one in done) == 3


def test_a_rank_without_a_file_is_named_and_the_others_are_merged(launcher, tmp_path):
    (tmp_path / "rank-1.json").write_text(trace_of(1, size=4))
    job = launcher.run("timeline", tmp_path)
    assert job.code == 0
    missing = wording.NO_RANK_FILE.format(count=3, size=4, ranks="0,2-3")
    assert job.said == [wording.line(wording.TIMELINE, text=missing)]
    assert json.loads(job.out)["otherData"]["warnings"] == [missing]


@pytest.mark.parametrize(
    ("files", "arguments", "said"),
    [
        ({}, [], wording.NO_TRACES),
        ({}, ["no-such-folder"], wording.NO_FOLDER),
        ({"rank-0.json": "no JSON"}, [], wording.NO_TRACE_FILE.format(file="rank-0.json")),
        ({"rank-0.json": "[{}]"}, [], wording.NO_FIRST_EVENT),
        (
            {"rank-0.json": trace_of(0), "rank-00.json": trace_of(0)},
            [],
            wording.TWO_FILES.format(rank=0),
        ),
        (
            {"rank-0.json": trace_of(0), "rank-1.json": trace_of(1, job="k")},
            [],
            wording.OTHER_JOBS,
        ),
    ],
)
def test_what_cannot_be_merged_is_said_and_leaves_no_file(
    launcher, tmp_path, files, arguments, said
):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    job = launcher.run(
        "timeline", *arguments, "-o", "merged", *([] if arguments else ["."]), cwd=tmp_path
    )
    assert (job.code, job.out) == (2, b"")
    (line,) = job.said
    assert line.startswith(wording.line(wording.TIMELINE, text="")) and said in line
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(files)


def test_the_output_replaces_no_trace_of_the_folder(launcher, tmp_path):
    file = tmp_path / "rank-0.json"
    file.write_text(trace_of(0, size=1))
    job = launcher.run("timeline", tmp_path, "-o", file)
    assert job.code == 2
    assert file.read_text() == trace_of(0, size=1)


def test_a_full_disk_is_a_failure(launcher, tmp_path):
    (tmp_path / "rank-0.json").write_text(trace_of(0, size=1))
    job = launcher.run("timeline", tmp_path, "-o", "/dev/full")
    assert job.code == 125
    full = wording.NO_MERGED.format(file="/dev/full")
    assert job.said == [wording.line(wording.TIMELINE, text=full)]
