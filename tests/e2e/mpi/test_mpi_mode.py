# SPDX-License-Identifier: Apache-2.0
"""horovodrun --mpi: an mpirun starts the ranks, and everything else is as without it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import contract
import pytest
import wording
from jobs import KEEPS_ENDS, Launcher, Running, only_rank
from support.processes import alive, process, wait_until_none

MPIRUNS = ("mpirun.openmpi", "mpiexec.hydra")
EXAMPLE = "examples/torch_fashion_mnist.py"


@pytest.fixture(params=MPIRUNS)
def mpirun(request: pytest.FixtureRequest) -> dict[str, str]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return {"HOROVOD_MPIRUN": request.param}


@pytest.fixture
def open_mpi() -> dict[str, str]:
    if shutil.which(MPIRUNS[0]) is None:
        pytest.skip(f"{MPIRUNS[0]} is not installed")
    return {"HOROVOD_MPIRUN": MPIRUNS[0]}


def wait_until_none_has(marker: str) -> None:
    """Until no process has it in its environment. The agent notices a death a moment later."""
    wait_until_none(lambda: alive(lambda one: marker.encode() in one.environment()), 5)


def pids_of(job: Running, ranks: int) -> list[int]:
    """Of a job whose ranks print `pid N`."""
    job.wait_until(lambda: len(re.findall(rb"pid \d+;", job.text["out"])) >= ranks, "ranks")
    return [int(pid) for pid in re.findall(rb"pid (\d+);", job.text["out"])]


def test_the_ranks_have_the_whole_contract(launcher: Launcher, mpirun: dict[str, str]) -> None:
    script = f"{contract.telling()}; sleep 0.1"

    ended = launcher.run("--mpi", "-np", 3, "sh", "-c", script, env=mpirun)

    assert ended.code == 0, ended.err
    assert contract.told(ended.stdout) == contract.of_hosts(3)


def test_a_clean_environment_is_that_of_the_ranks_and_not_of_mpirun(
    launcher: Launcher, mpirun: dict[str, str]
) -> None:
    def names(*mode: str) -> set[str]:
        ended = launcher.run(
            *mode,
            *("-np", 2, "--env-clean", "--env", "OWN=1", "--env-pass", "KEPT"),
            *("sh", "-c", "tr '\\0' '\\n' < /proc/$$/environ | sed 's/^/got /; s/=.*//'"),
            env={**mpirun, "KEPT": "1", "DROPPED": "1"},
        )
        assert ended.code == 0, ended.err
        return {line.split("got ")[1] for line in ended.lines if "got " in line}

    native, through_mpi = names(), names("--mpi")

    assert {"OWN", "KEPT", "HOROVOD_RANK"} <= native
    assert "DROPPED" not in native | through_mpi
    assert native <= through_mpi
    extra = through_mpi - native - {"HOROVOD_MPI_JOB"}
    assert all(re.match("OMPI_|PMIX_|PMI_|HYD|MPI_", name) for name in extra), extra


def test_a_dry_run_prints_the_line_and_starts_nothing(
    launcher: Launcher, open_mpi: dict[str, str]
) -> None:
    ended = launcher.run(
        "--mpi", "-np", 1, "--mpi-args=--mca pml ob1", "--dry-run", "echo", "a b", env=open_mpi
    )

    started = wording.STARTED_BY.format(command="")
    line = next(line for line in ended.lines if line.startswith(started))
    assert re.fullmatch(
        started + r"mpirun.openmpi --allow-run-as-root --tag-output --stdin none -np 1 "
        r"-H localhost:1 --bind-to none --map-by slot( -x [A-Z_]+)+ --mca pml ob1 "
        r"/.*/hvd-agent exec -- echo 'a b'",
        line,
    )
    assert ended.code == 0


def test_the_end_report_names_culprit_line_and_status(
    launcher: Launcher, mpirun: dict[str, str], tmp_path: Path
) -> None:
    summary = tmp_path / "summary.json"

    ended = launcher.run(
        "--mpi", "-np", 3, "--summary", summary, *only_rank(1, "sleep 0.3; exit 7"), env=mpirun
    )

    assert ended.code == 7
    said = "\n".join(ended.said)
    program = re.escape(mpirun["HOROVOD_MPIRUN"])
    started = wording.pattern(wording.STARTED_BY, command=f"{program} .* exec -- sh -c ")
    assert re.search(f"^{wording.PREFIX}{started}", said, re.M), said
    end = wording.pattern(wording.ITS_END, code=r"\d+", pid=r"\d+")
    assert re.search(f"^{wording.PREFIX}{end}$", said, re.M), said
    assert wording.line(wording.CAME_FROM_IT, ranks="0-2") in said
    report = json.loads(summary.read_text())
    assert report["exit_code"] == 7
    assert report["launcher"]["line"].startswith(mpirun["HOROVOD_MPIRUN"] + " ")
    assert len({rank["pid"] for rank in report["ranks"]}) == 3
    if KEEPS_ENDS:
        assert report["culprit"]["rank"] == 1
        assert report["culprit"]["exit_code"] == 7


FAKE_MPIRUN = """\
#!{python}
import os, signal, sys
if "--version" in sys.argv:
    print("mpirun (Open MPI) 4.1.4")
    sys.exit()
ranks = int(sys.argv[sys.argv.index("-np") + 1])
command = sys.argv[next(n for n, word in enumerate(sys.argv) if word.endswith("hvd-agent")) :]
for rank in range(ranks):
    if os.fork() == 0:
        os.environ["OMPI_COMM_WORLD_RANK"] = str(rank)
        os.environ["OMPI_COMM_WORLD_SIZE"] = str(ranks)
        os.execv(command[0], command)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()  # and reaps nobody
"""


def test_an_mpirun_that_does_not_end_with_its_ranks_is_ended(
    launcher: Launcher, tmp_path: Path
) -> None:
    """As Open MPI 4.1 now and then locks itself up while it ends."""
    fake = tmp_path / "mpirun"
    fake.write_text(FAKE_MPIRUN.format(python=sys.executable))
    fake.chmod(0o755)
    flags, env = ("--mpi", "-np", 2), {"HOROVOD_MPIRUN": str(fake)}
    with (
        launcher.start(*flags, "sh", "-c", "echo done", env=env) as good,
        launcher.start(*flags, *only_rank(1, "echo why >&2; exit 3", "true"), env=env) as bad,
    ):
        well, failed = good.end(), bad.end()

    said = wording.MPIRUN_STAYS
    assert well.code == 0, well.err
    assert well.out.count(b"done") == 2
    assert said in well.stderr
    assert failed.code == 3, failed.err
    assert said in failed.stderr
    assert wording.line(wording.culprit(1)) in failed.stderr
    assert wording.line(wording.LAST_LINE, text="why") in failed.said


def test_lines_of_ranks_are_whole_and_tagged_by_their_rank(
    launcher: Launcher, mpirun: dict[str, str]
) -> None:
    """Words by themselves, as an unbuffered print writes them, and lines longer than a pipe."""
    script = (
        "import os, time; rank = os.environ['HOROVOD_RANK']\n"
        "for line in range(20):\n"
        "    for word in ('line ', rank, f' {line} '): os.write(1, word.encode()); time.sleep(0)\n"
        "    os.write(1, b'end\\n')\n"
        "os.write(2, rank.encode() * 100000 + b'\\n')\n"
    )

    ended = launcher.run("--mpi", "-np", 3, sys.executable, "-c", script, env=mpirun)

    assert ended.code == 0, ended.err
    expected = [
        f"[{rank}]<stdout>:line {rank} {line} end" for rank in range(3) for line in range(20)
    ]
    assert sorted(ended.lines) == sorted(expected)
    errors = [line for line in ended.err.decode().splitlines() if "<stderr>" in line]
    assert sorted(errors) == [f"[{rank}]<stderr>:" + str(rank) * 100000 for rank in range(3)]


def test_the_report_shows_the_last_lines_of_the_culprit(
    launcher: Launcher, mpirun: dict[str, str], tmp_path: Path
) -> None:
    summary = tmp_path / "summary.json"
    script = only_rank(1, "echo cannot go on >&2; sleep 0.3; exit 7", "echo well >&2; sleep 60")

    ended = launcher.run("--mpi", "-np", 2, "--summary", summary, *script, env=mpirun)

    assert ended.code == 7
    culprit = json.loads(summary.read_text())["culprit"]
    if KEEPS_ENDS:
        assert culprit["stderr_tail"] == ["cannot go on"]
        assert wording.line(wording.LAST_LINE, text="cannot go on") in ended.said


def test_output_goes_to_files_and_one_rank_can_be_shown(
    launcher: Launcher, mpirun: dict[str, str], tmp_path: Path
) -> None:
    flags = ("--mpi", "-np", 2, "--output-filename", tmp_path / "out", "--show", 1)

    ended = launcher.run(*flags, "sh", "-c", "echo rank $HOROVOD_RANK; sleep 0.1", env=mpirun)

    assert ended.code == 0, ended.err
    assert ended.out == b"[1]<stdout>:rank 1\n"
    texts = sorted(file.read_text() for file in (tmp_path / "out").rglob("stdout"))
    assert texts == ["rank 0\n", "rank 1\n"]


def test_rank_0_reads_the_standard_input(
    launcher: Launcher, mpirun: dict[str, str], tmp_path: Path
) -> None:
    words = tmp_path / "words"
    words.write_text("hello\n")
    script = '[ "$HOROVOD_RANK" = 0 ] && read word; echo has $word; sleep 0.1'
    flags = ("--mpi", "-np", 2, "--stdin", 0, "--timeout", 30)
    with words.open("rb") as stdin:
        ended = launcher.run(*flags, "sh", "-c", script, env=mpirun, stdin=stdin)

    assert ended.code == 0, ended.err
    assert sorted(ended.lines) == ["[0]<stdout>:has hello", "[1]<stdout>:has"]


def test_a_command_that_is_not_there_is_named(launcher: Launcher, mpirun: dict[str, str]) -> None:
    ended = launcher.run("--mpi", "-np", 2, "no-such-program", env=mpirun)

    assert ended.code == 127
    assert wording.NOT_IN_PATH.format(program="no-such-program") in "\n".join(ended.said), ended


def test_an_mpirun_that_is_not_there_is_refused(launcher: Launcher) -> None:
    ended = launcher.run("--mpi", "-np", 2, "true", env={"HOROVOD_MPIRUN": "no-such-mpirun"})

    assert ended.code == 2
    assert wording.NO_MPI in ended.said[0]


def test_a_program_that_is_no_mpirun_is_refused(launcher: Launcher) -> None:
    ended = launcher.run("--mpi", "-np", 2, "true", env={"HOROVOD_MPIRUN": "echo"})

    assert ended.code == 2
    assert wording.NOT_MPIRUN.format(program="echo") in ended.said[0]


def test_the_time_limit_ends_the_job(launcher: Launcher, mpirun: dict[str, str]) -> None:
    ended = launcher.run("--mpi", "-np", 2, "--timeout", 1, "sleep", "60", env=mpirun)

    assert ended.code == 124
    assert "--timeout" in ended.said[0]


def test_ctrl_c_reaches_the_ranks_themselves(launcher: Launcher, mpirun: dict[str, str]) -> None:
    script = "trap 'echo heard; exit 0' INT; echo pid $$\\;; while :; do sleep 0.05; done"
    with launcher.start("--mpi", "-np", 2, "sh", "-c", script, env=mpirun) as job:
        pids_of(job, 2)
        job.signal(signal.SIGINT)
        ended = job.end()

    assert ended.code == 0, ended.err
    assert ended.out.count(b"heard") == 2


def test_a_signal_for_programs_is_passed_on_once(
    launcher: Launcher, mpirun: dict[str, str]
) -> None:
    script = (
        "import os, signal, time; heard = []; signal.signal(10, lambda *_: heard.append(1));"
        "print(f'pid {os.getpid()};', flush=True); time.sleep(1); time.sleep(0.5);"
        "print(f'heard {len(heard)} times;', flush=True)"
    )
    with launcher.start("--mpi", "-np", 2, sys.executable, "-c", script, env=mpirun) as job:
        pids_of(job, 2)
        job.signal(signal.SIGUSR1)
        ended = job.end()

    assert ended.code == 0, ended.err
    assert ended.out.count(b"heard 1 times") == 2


@pytest.mark.parametrize("ranks", [36])
def test_a_killed_mpirun_leaves_no_rank(
    launcher: Launcher, mpirun: dict[str, str], ranks: int
) -> None:
    marker = f"HVD_TEST_MARK={os.getpid()}-{ranks}-{time.monotonic_ns()}"
    name, value = marker.split("=")
    env = {**mpirun, name: value}
    stays = "trap '' TERM; echo pid $$\\;; exec sleep 60"  # only KILL ends it, and no grace is due
    with launcher.start("--mpi", "-np", ranks, "--grace", 40, "sh", "-c", stays, env=env) as job:
        pids = pids_of(job, ranks)
        os.kill(process(pids[0]).parent, signal.SIGKILL)  # Open MPI's mpirun, or hydra's proxy
        ended = job.end()

    assert ended.code != 0
    wait_until_none_has(marker)


def test_a_killed_horovodrun_leaves_nobody(launcher: Launcher, mpirun: dict[str, str]) -> None:
    marker = f"HVD_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    name, value = marker.split("=")
    with launcher.start(
        "--mpi", "-np", 2, "sh", "-c", "echo pid $$\\;; exec sleep 60", env={**mpirun, name: value}
    ) as job:
        pids_of(job, 2)
        job.signal(signal.SIGKILL)
        job.end()

    wait_until_none_has(marker)


def test_other_numbers_of_ranks_than_planned_are_refused(
    launcher: Launcher, open_mpi: dict[str, str]
) -> None:
    ended = launcher.run("--mpi", "-np", 2, "--mpi-args=-np 1", "sleep", "1", env=open_mpi)

    assert ended.code != 0
    assert wording.OTHER_SIZE.format(size=1, ranks=2) in ended.stderr or ended.code in (1, 125)


def test_the_loss_falls_as_in_native_mode(
    launcher: Launcher, mpirun: dict[str, str], root: Path
) -> None:
    pytest.importorskip("torch")
    command = (sys.executable, root / EXAMPLE, "--epochs", 1, "--batches-per-epoch", 4)

    def losses(*flags: str) -> list[str]:
        ended = launcher.run(*flags, "-np", 2, *command, env=mpirun)
        assert ended.code == 0, ended.err
        return re.findall(r"loss[ =:]+([0-9.]+)", ended.out.decode())

    native = losses()
    assert native
    assert losses("--mpi") == native
