# SPDX-License-Identifier: Apache-2.0
"""The plan that --dry-run prints, and that the ranks then get exactly that."""

from __future__ import annotations

import json
import os
import sys

import pytest
import wording

# A rank's view of itself, as JSON on one line.
LOOK = """
import json, os, sys
print(json.dumps({
    "env": dict(os.environ),
    "cpus": sorted(os.sched_getaffinity(0)),
    "cwd": os.getcwd(),
    "argv": sys.argv[1:],
}))
"""
RECORD = "HOROVOD_LAUNCHER_VARIABLES"
PER_JOB = ("HOROVOD_JOB_ID", "HOROVOD_AGENT_SOCKET", "MASTER_PORT")


def plan(launcher, *arguments, **options):
    job = launcher.run("--dry-run", "--output-format", "json", *arguments, **options)
    assert job.code == 0, job.err
    return json.loads(job.out)


@pytest.mark.parametrize("hosts", [(), ("-H", "localhost:1,elsewhere:1")])
def test_a_command_that_no_rank_could_run_has_no_plan(launcher, tmp_path, hosts):
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    shell.chmod(0o755)
    flags = (*hosts, "--remote-shell", shell) if hosts else ("-np", 1)

    job = launcher.run("--dry-run", *flags, "nosuch", env={"XDG_CACHE_HOME": str(tmp_path)})

    assert (job.code, job.out) == (127, b"")
    why = wording.line("localhost: " + wording.NOT_FOUND, program="nosuch")
    assert any(line.startswith(why) for line in job.said)


def test_a_plan_is_refused_with_what_is_wrong_with_the_command(launcher, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to("/nowhere/train")

    of_folder = launcher.run("--dry-run", "-np", 1, folder)
    of_link = launcher.run("--dry-run", "-np", 1, link)

    assert of_folder.said == [wording.line("localhost: " + wording.IS_FOLDER, program=folder)]
    assert of_link.said == [
        wording.line("localhost: " + wording.IS_DEAD_LINK, program=link, target="/nowhere/train")
    ]
    assert (of_folder.code, of_link.code) == (126, 127)


def without_job(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in PER_JOB}


@pytest.mark.parametrize(
    "flags, clean",
    [
        ([], False),
        (
            [
                "--bind-to",
                "none",
                "--env",
                'MINE=it\'s a "test"',
                "--cycle-time-ms",
                "3",
            ],
            False,
        ),
        (["--env-clean", "--env-pass", "PATH", "--env", "OMP_NUM_THREADS=7"], True),
    ],
)
def test_what_a_rank_has_equals_its_entry_in_the_plan(launcher, tmp_path, flags, clean):
    ranks = min(2, len(os.sched_getaffinity(0)))
    # -I and -S: nothing but the rank's own start may change its environment.
    command = [sys.executable, "-IS", "-c", LOOK, "a b", ""]
    arguments = ["-np", ranks, *flags, *command]

    planned = plan(launcher, *arguments, cwd=tmp_path)
    job = launcher.run(*arguments, cwd=tmp_path)

    assert job.code == 0, job.err
    found = dict(line.split("]<stdout>:", 1) for line in job.lines)
    assert len(planned["ranks"]) == len(found) == ranks
    for entry in planned["ranks"]:
        rank = json.loads(found[f"[{entry['rank']}"])
        base = {"PATH": os.environ["PATH"]} if clean else dict(os.environ)
        expected = {**base, **entry["env"]}
        rank["env"].pop("LC_CTYPE", None)  # Python's own, where no locale is set
        expected.pop("LC_CTYPE", None)
        # The agent's record of the others.
        record = dict(one.split("=") for one in rank["env"].pop(RECORD).split(";"))
        assert record == {name: rank["env"][name] for name in record}
        assert record["RANK"] == str(entry["rank"])
        assert without_job(rank["env"]) == without_job(expected)
        assert set(rank["env"]) == set(expected)
        assert rank["cpus"] == (entry["cpus"] or sorted(os.sched_getaffinity(0)))
        assert rank["cwd"] == entry["cwd"] == str(tmp_path)
        assert entry["argv"] == command
        assert rank["argv"] == command[4:]


def test_the_plan_has_the_documented_fields(launcher):
    planned = plan(launcher, "-np", 1, "-H", "localhost:4", "true")

    assert list(planned) == ["version", "mode", "np", "hosts", "ranks", "agents"]
    assert planned["hosts"] == [{"host": "localhost", "slots": 4, "starter": "local"}]
    assert planned["mode"] == "native"
    assert list(planned["ranks"][0]) == [
        "rank",
        "host",
        "local_rank",
        "local_size",
        "cross_rank",
        "cross_size",
        "gpus",
        "cpus",
        "env",
        "cwd",
        "argv",
    ]


def test_a_dry_run_starts_no_rank(launcher, tmp_path):
    job = launcher.run("-np", 2, "--dry-run", "touch", tmp_path / "started")

    assert job.code == 0
    assert wording.PLAN_IS.format(ranks=2, hosts="localhost") in job.lines[0]
    assert job.lines[-2:] == ["agents:", f"  localhost: {wording.CHILD}"]
    assert plan(launcher, "-np", 2, "true")["agents"] == [
        {"host": "localhost", "way": wording.CHILD}
    ]
    assert not (tmp_path / "started").exists()


def test_a_batch_job_runs_on_its_own_hosts(launcher, tmp_path):
    nodes = tmp_path / "nodes"
    nodes.write_text("localhost\n" * 3)
    batch = {"PBS_NODEFILE": str(nodes), "PBS_JOBID": "42.site"}

    job = launcher.run("sh", "-c", 'echo "$HOROVOD_RANK of $HOROVOD_SIZE"', env=batch)
    more = launcher.run("-np", 4, "true", env=batch)

    assert job.code == 0, job.err
    assert sorted(line.split(":")[-1] for line in job.lines) == ["0 of 3", "1 of 3", "2 of 3"]
    assert more.code == 2
    too_many = {"np": 4, "tasks": 3, "job": "PBS job 42.site", "hosts": "localhost:3"}
    assert wording.MORE_THAN_TASKS.format(**too_many) in more.said[-1]


def test_recorded_facts_are_planned_for_without_any_host(launcher, tmp_path):
    facts = tmp_path / "facts.json"
    facts.write_text(
        json.dumps(
            [
                {
                    "hostname": name,
                    "cpus": "0-7",
                    "gpus": [{"index": index, "uuid": f"GPU-{name}{index}"} for index in range(2)],
                }
                for name in ("node1", "node2")
            ]
        )
    )

    planned = plan(launcher, "--facts", facts, "--gpu-bind", "env", "train")

    seen = [
        (rank["host"], rank["gpus"], rank["cpus"], rank["env"]["CUDA_VISIBLE_DEVICES"])
        for rank in planned["ranks"]
    ]
    assert seen == [
        ("node1", [{"index": 0, "uuid": "GPU-node10"}], [0, 1, 2, 3], "0"),
        ("node1", [{"index": 1, "uuid": "GPU-node11"}], [4, 5, 6, 7], "1"),
        ("node2", [{"index": 0, "uuid": "GPU-node20"}], [0, 1, 2, 3], "0"),
        ("node2", [{"index": 1, "uuid": "GPU-node21"}], [4, 5, 6, 7], "1"),
    ]


def test_facts_that_are_wrong_are_refused_by_field(launcher, tmp_path):
    facts = tmp_path / "facts.json"
    facts.write_text('[{"hostname": "node1", "cpu": "0-7"}]')

    job = launcher.run("--dry-run", "--facts", facts, "-np", 1, "train")

    assert job.code == 2
    assert job.said == [wording.line(wording.NO_FACT, file=facts, host="node1", field="cpus")]
