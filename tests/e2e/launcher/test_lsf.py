# SPDX-License-Identifier: Apache-2.0
"""Inside of LSF jobs. IBM's jsrun and LSF's blaunch are not free programs and run nowhere in our
CI: small scripts stand in for them here, which take the documented options that horovodrun writes,
and start everything on this machine. Goldens of the lines are in unit/launcher/lsf_plan_test.cpp.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import contract
import pytest
import wording
from commands import summary_of
from jobs import KEEPS_ENDS, Launcher, only_rank

# With tasks of one host, whose ranks are consecutive. What real tasks of jsrun find is set, and as
# with it the status is that of the task that failed.
JSRUN = """\
#!{python}
import os, signal, sys
words = sys.argv[1:]
at = next(n for n, word in enumerate(words) if word.endswith("hvd-agent"))
options, command = words[:at], words[at:]
value = {{options[n]: options[n + 1] for n in range(len(options) - 1)}}
log = open(os.environ["JSRUN_LOG"], "a", buffering=1)
for n, word in enumerate(options):
    if word == "-E":
        print("passes", options[n + 1], options[n + 1] in os.environ, file=log)
if "--erf_input" in value:
    path = value["--erf_input"]
    print("mode", oct(os.stat(path).st_mode & 0o7777), file=log)
    text = open(path).read()
    print(text, end="", file=log)
    size = text.count("rank: ")
else:
    size = int(value["--nrs"]) * int(value["--tasks_per_rs"])
pids = {{}}
for rank in range(size):
    pid = os.fork()
    if pid == 0:
        names = dict(RANK=rank, SIZE=size, LOCAL_RANK=rank, LOCAL_SIZE=size)
        os.environ.update({{f"JSM_NAMESPACE_{{name}}": str(of) for name, of in names.items()}})
        if rank != 0:
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.environ.update(JSM_NAMESPACE="0", PMIX_RANK=str(rank), PMIX_NAMESPACE="1")
        os.execv(command[0], command)
    pids[pid] = rank
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, _: print("got signal", number, file=log))
worst = 0
while pids:
    pid, status = os.wait()
    if pids.pop(pid, None) is not None:
        worst = worst or os.waitstatus_to_exitcode(status)
sys.exit(worst if worst >= 0 else 128 - worst)
"""

BLAUNCH = """\
#!/bin/sh
echo "blaunch $1" >>"$JSRUN_LOG"
exec sh -c "$2"
"""


@dataclass
class Lsf:
    """The variables of a job, and what its programs noted."""

    env: dict[str, str]
    log: Path
    folder: Path

    def of(self, hosts: str, **more: str) -> dict[str, str]:
        return {**self.env, "LSB_JOBID": "271828", "LSB_MCPU_HOSTS": hosts, **more}

    def noted(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture
def lsf(tmp_path: Path) -> Lsf:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("jsrun", JSRUN.format(python=sys.executable)), ("blaunch", BLAUNCH)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "JSRUN_LOG": str(tmp_path / "log"),
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    return Lsf(env, tmp_path / "log", temporary)


# CSM's launch node comes first and computes nothing.
CSM = {"CSM_ALLOCATION_ID": "99"}
EVEN = "launch 1 localhost 2"
JOB = {"job": "LSF job 271828", "hosts": "localhost:2"}


def test_jsrun_starts_the_ranks_with_the_whole_contract(launcher: Launcher, lsf: Lsf) -> None:
    env = lsf.of(EVEN, **CSM)
    script = f"{contract.telling()}; echo $JSM_NAMESPACE_RANK"
    ended = launcher.run("--jsrun", "sh", "-c", script, env=env)

    assert ended.code == 0, ended.err
    assert contract.told(ended.stdout) == contract.of_hosts(2)
    assert {line for line in ended.lines if "contract" not in line} == {
        "[0]<stdout>:0",
        "[1]<stdout>:1",
    }
    assert "passes HOROVOD_MPI_JOB True" in lsf.noted()
    assert "False" not in lsf.noted()


def test_a_dry_run_prints_jsruns_line_and_leaves_nothing(launcher: Launcher, lsf: Lsf) -> None:
    even = launcher.run("--jsrun", "--dry-run", "echo", "a b", env=lsf.of(EVEN, **CSM))
    uneven = launcher.run("--jsrun", "-np", 1, "--dry-run", "true", env=lsf.of("localhost 2 n2 2"))
    told = launcher.run(
        *("--jsrun", "-H", "localhost:1", "--dry-run", "--output-format", "json", "true"),
        env=lsf.of("localhost 2 n2 2"),
    )

    assert re.search(
        f"^{wording.STARTED_BY.format(command='')}"
        r"jsrun --nrs 1 --rs_per_host 1 --tasks_per_rs 2 --cpu_per_rs 2 "
        r"--launch_distribution packed --bind none --stdio_mode prepended "
        r"--smpiargs=-disable_gpu_hooks( -E [A-Za-z_0-9]+)+ "
        r"/.*/hvd-agent exec -- echo 'a b'$",
        even.out.decode(),
        re.M,
    ), even
    assert re.search(
        r"^which reads (.*/horovodrun-\w{32}\.erf):\n  cpu_index_using: logical\n(  .*\n)+"
        r"  rank: 0: \{ host: 1; cpu: \{[0-9,]+\} \}$",
        uneven.out.decode(),
        re.M,
    ), uneven
    document = json.loads(told.out)
    assert document["mode"] == "jsrun"
    argv, file = document["launcher"]["argv"], document["launcher"]["file"]
    assert argv[:3] == ["jsrun", "--erf_input", file["path"]]
    assert re.search(r"^rank: 0: \{ host: 1; cpu: \{[0-9,]+\} \}$", file["text"], re.M)
    assert lsf.noted() == "blaunch n2\n"
    assert list(lsf.folder.iterdir()) == []


def test_a_resource_file_is_private_and_there_as_long_as_the_job(
    launcher: Launcher, lsf: Lsf
) -> None:
    env = lsf.of("localhost 2 n2 2")
    with launcher.start(
        "--jsrun", "-H", "localhost:2", "sh", "-c", "echo here; sleep 60", env=env
    ) as job:
        job.wait_until(lambda: job.text["out"].count(b"here") == 2, "both ranks")
        (file,) = lsf.folder.glob("*.erf")
        mode = stat.S_IMODE(file.stat().st_mode)
        job.signal(signal.SIGTERM)
        ended = job.end()

    assert ended.code == 143, ended.err
    assert mode == 0o600
    assert "rank: 1: { host: 1; cpu: {" in lsf.noted()
    assert list(lsf.folder.iterdir()) == []


def test_the_report_names_culprit_line_and_status_of_jsrun(launcher: Launcher, lsf: Lsf) -> None:
    summary = lsf.folder / "summary.json"
    script = only_rank(1, "echo cannot go on >&2; sleep 0.3; exit 7")

    ended = launcher.run("--jsrun", "--summary", summary, *script, env=lsf.of(EVEN, **CSM))

    assert ended.code == 7, ended.err
    said = "\n".join(ended.said)
    jsrun = wording.pattern(wording.STARTED_BY, command="jsrun --nrs 1 .* exec -- sh -c ")
    assert re.search(f"^{wording.PREFIX}{jsrun}", said, re.M), said
    end = wording.pattern(wording.ITS_END, code=7, pid=r"\d+")
    assert re.search(f"^{wording.PREFIX}{end}$", said, re.M), said
    report = summary_of(summary, ended)
    assert report["launcher"]["line"].startswith("jsrun --nrs 1 ")
    if KEEPS_ENDS:
        assert report["culprit"]["rank"] == 1
        assert report["culprit"]["stderr_tail"] == ["cannot go on"]


def test_binding_args_with_too_many_tasks_are_named(launcher: Launcher, lsf: Lsf) -> None:
    binding = "--binding-args=--nrs 1 --tasks_per_rs 3"

    ended = launcher.run("--jsrun", binding, "sleep", 1, env=lsf.of(EVEN, **CSM))

    assert ended.code != 0
    other = wording.OTHER_SIZE.format(size=3, ranks=2)
    assert other + wording.LEAVE_OUT_SIZES + wording.JSRUN_TASKS in ended.stderr


def test_jsrun_gives_standard_input_to_rank_0(launcher: Launcher, lsf: Lsf) -> None:
    script = "read word; echo has $word"
    reading, writing = os.pipe()
    os.write(writing, b"hello\n")
    os.close(writing)
    with os.fdopen(reading, "rb") as stdin:
        ended = launcher.run(
            *("--jsrun", "--stdin", 0, "sh", "-c", script), env=lsf.of(EVEN, **CSM), stdin=stdin
        )

    assert ended.code == 0, ended.err
    assert sorted(ended.lines) == ["[0]<stdout>:has hello", "[1]<stdout>:has"]


LISTENS = "trap 'echo heard; exit 0' INT; echo ready; while :; do sleep 0.05; done"


def test_ctrl_c_reaches_the_ranks_that_jsrun_started(launcher: Launcher, lsf: Lsf) -> None:
    with launcher.start("--jsrun", "sh", "-c", LISTENS, env=lsf.of(EVEN, **CSM)) as job:
        job.wait_until(lambda: job.text["out"].count(b"ready") == 2, "both ranks")
        job.signal(signal.SIGINT)
        ended = job.end()

    assert ended.code == 0, ended.err
    assert ended.out.count(b"heard") == 2
    assert "got signal" not in lsf.noted()


def test_jsrun_runs_on_the_launch_node_and_agents_are_where_the_ranks_are(
    launcher: Launcher, lsf: Lsf
) -> None:
    """blaunch starts the agent of the compute node; jsrun's own has no rank."""
    env = lsf.of("launch 1 compute 2", **CSM)
    script = f"{contract.telling()}; {LISTENS}"
    with launcher.start("--jsrun", "--verbose", "sh", "-c", script, env=env) as job:
        job.wait_until(lambda: job.text["out"].count(b"ready") == 2, "both ranks")
        job.signal(signal.SIGINT)
        ended = job.end()

    assert ended.code == 0, ended.err
    assert contract.told(ended.stdout) == contract.of_hosts(2)
    assert ended.out.count(b"heard") == 2
    assert "blaunch compute" in lsf.noted()
    assert "got signal" not in lsf.noted()
    assert "(0 slots, local)" in ended.err.decode()


def test_a_failing_rank_beside_a_launch_node_ends_the_job(launcher: Launcher, lsf: Lsf) -> None:
    env = lsf.of("launch 1 compute 2", **CSM)

    ended = launcher.run("--jsrun", *only_rank(1, "sleep 0.3; exit 7"), env=env)

    assert ended.code == 7, ended.err
    assert ended.seconds < 30


def test_without_a_flag_blaunch_starts_the_agents(launcher: Launcher, lsf: Lsf) -> None:
    env = lsf.of("compute 2 ")

    plan = launcher.run("--dry-run", "true", env=env)
    ended = launcher.run("sh", "-c", contract.telling(), env=env)

    assert plan.code == 0, plan.err
    said = plan.out.decode()
    planned = wording.PLAN_IS.format(ranks=2, hosts="compute (2 slots, remote shell)")
    assert planned in said.splitlines(), said
    assert re.search(r"^  compute: blaunch compute '.*'$", said, re.M), said
    assert contract.told(ended.stdout) == contract.of_hosts(2), ended.err


@pytest.mark.parametrize(
    ("flags", "hosts", "sentence"),
    [
        (("-np", 3), EVEN, wording.MORE_THAN_TASKS.format(np=3, tasks=2, **JOB)),
        (("-H", "n9:1"), EVEN, wording.NOT_IN_LSF.format(host="n9", **JOB)),
        (("-np", 1, "--mpi"), EVEN, wording.MPI_AND_JSRUN),
        (("-np", 1, "--stdin", "all"), EVEN, wording.JSRUN_INPUT),
    ],
)
def test_what_jsrun_cannot_do_is_refused(
    launcher: Launcher, lsf: Lsf, flags: tuple[object, ...], hosts: str, sentence: str
) -> None:
    ended = launcher.run("--jsrun", *flags, "true", env=lsf.of(hosts, **CSM))

    assert ended.code == 2, ended
    assert sentence in "\n".join(ended.said)
    assert lsf.noted() == ""
