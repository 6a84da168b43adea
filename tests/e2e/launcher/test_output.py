# SPDX-License-Identifier: Apache-2.0
"""Every byte that a rank writes arrives, in whole lines, at its place."""

from __future__ import annotations

import calendar
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import wording
from commands import summary_of
from jobs import only_rank
from support.processes import below, wait_until_none


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", "-c", script)


def written(file: Path, folder: Path) -> bytes:
    return (folder / file).read_bytes()


def test_each_line_has_its_rank_and_stream(launcher):
    job = launcher.run("-np", 2, "sh", "-c", "echo out; echo err >&2")

    assert sorted(job.lines) == ["[0]<stdout>:out", "[1]<stdout>:out"]
    ranks_err = [line for line in job.err.splitlines() if b"<stderr>" in line]
    assert sorted(ranks_err) == [b"[0]<stderr>:err", b"[1]<stderr>:err"]


def test_a_last_line_without_its_end_gets_one_on_the_console_only(launcher, tmp_path):
    job = launcher.run("-np", 1, "--output-filename", tmp_path, "printf", "a\\nb")

    assert job.out == b"[0]<stdout>:a\n[0]<stdout>:b\n"
    assert written(Path("rank.0/stdout"), tmp_path) == b"a\nb"


ASK = """
import sys, time
print("name? ", end="", flush=True)
name = sys.stdin.readline().strip()
print("hello", name)
"""


def test_a_prompt_is_there_before_it_is_answered(launcher):
    options = {"stdin": subprocess.PIPE}
    with launcher.start("-np", 1, "--stdin", 0, *python(ASK), **options) as job:
        job.wait_for(b"[0]<stdout>:name? ")
        job.process.stdin.write(b"Ada\n")
        job.process.stdin.close()

        assert job.end().out == b"[0]<stdout>:name? hello Ada\n"


WAIT = """
import os, time
first = os.environ["HOROVOD_RANK"] == "0"
print("loading..." if first else "", end="", flush=True)
while not os.path.exists(f"{folder}/go"):
    time.sleep(0.01)
print(" done" if first else "ready")
"""


def test_an_unfinished_line_does_not_wait_for_its_end(launcher, tmp_path):
    script = WAIT.replace("{folder}", str(tmp_path)).replace('f"', '"')
    with launcher.start("-np", 1, *python(script)) as job:
        job.wait_for(b"[0]<stdout>:loading...")
        (tmp_path / "go").touch()

        assert job.end().out == b"[0]<stdout>:loading... done\n"


def test_files_have_the_line_as_it_was_written_whatever_came_between(launcher, tmp_path):
    script = WAIT.replace("{folder}", str(tmp_path)).replace('f"', '"')
    script = script.replace('print(" done', 'time.sleep(0.3 * first); print(" done')
    with launcher.start("-np", 2, "--output-filename", tmp_path, *python(script)) as job:
        job.wait_for(b"[0]<stdout>:loading...")
        (tmp_path / "go").touch()

        assert job.end().lines == [
            "[0]<stdout>:loading...",
            "[1]<stdout>:ready",
            "[0]<stdout>: done",
        ]
    assert written(Path("rank.0/stdout"), tmp_path) == b"loading... done\n"


def test_progress_bars_keep_their_carriage_returns(launcher):
    job = launcher.run("-np", 1, "printf", "10%%\\r20%%\\rdone\\n")

    assert job.out == b"[0]<stdout>:10%\r[0]<stdout>:20%\r[0]<stdout>:done\n"


def test_any_bytes_pass_unchanged(launcher, tmp_path):
    data = random.Random(7).randbytes(3_000_000) + b"\0\xff\xfe\n\xc3"
    source = tmp_path / "data"
    source.write_bytes(data)

    job = launcher.run("-np", 2, "--output-filename", tmp_path / "out", "cat", source)

    assert job.code == 0
    for rank in (0, 1):
        assert written(Path(f"rank.{rank}/stdout"), tmp_path / "out") == data
    # On the console: cut at \n and \r, with a prefix each, and an end for the last piece.
    for rank in (b"0", b"1"):
        pieces = re.findall(rb"\[%s\]<stdout>:([^\r\n]*(?:\r\n|\r|\n))" % rank, job.out)
        assert b"".join(pieces) == data + b"\n"


def test_lines_of_four_ranks_are_never_torn(launcher):
    lines = 100_000
    script = f"import os; r = os.environ['HOROVOD_RANK']\nfor i in range({lines}): print(r, i)"

    job = launcher.run("-np", 4, *python(script))

    assert job.code == 0
    expected = Counter(f"[{r}]<stdout>:{r} {i}" for r in range(4) for i in range(lines))
    assert Counter(job.lines) == expected
    own = [line for line in job.lines if line.startswith("[2]")]
    assert own == [f"[2]<stdout>:2 {i}" for i in range(lines)]


def test_both_streams_in_one_pipe_are_not_torn(launcher):
    script = (
        "import sys\nfor i in range(20000):\n"
        " sys.stdout.write('out %d\\n' % i); sys.stderr.write('err %d\\n' % i)"
    )

    job = launcher.run("-np", 3, *python(script), stderr=subprocess.STDOUT)

    lines = [line for line in job.lines if not line.startswith("horovodrun: ")]
    assert len(lines) == 120_000
    whole = re.compile(r"\[[012]\]<std(out>:out|err>:err) \d+")
    assert all(whole.fullmatch(line) for line in lines)


def test_timestamps_are_utc_and_directly_in_front(launcher):
    before = time.time()
    job = launcher.run("-np", 1, "-prefix-timestamp", "echo", "hi")

    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)\[0\]<stdout>:hi", job.lines[0])
    assert match
    stamp = time.strptime(match[1][:19], "%Y-%m-%dT%H:%M:%S")
    assert int(before) <= calendar.timegm(stamp) <= time.time()


def test_a_prefix_of_ones_own_names_rank_host_and_stream(launcher):
    script = only_rank(1, "echo out; echo err >&2", others="true")

    job = launcher.run("-np", 2, "--prefix", "{stream} {rank}@{host} ", *script)

    assert job.lines == ["stdout 1@localhost out"]
    assert job.err == b"stderr 1@localhost err\n"
    assert launcher.run("-np", 2, "--prefix", "none", *script).out == b"out\n"


def test_files_are_padded_and_hold_what_the_console_does_not_show(launcher, tmp_path):
    job = launcher.run(
        *("-np", 11, "--output-filename", tmp_path, "--show", "3", "--bind-to", "none"),
        *("sh", "-c", "echo $HOROVOD_RANK; echo e >&2"),
    )

    assert job.out == b"[3]<stdout>:3\n"
    names = sorted(entry.name for entry in tmp_path.iterdir())
    ranks = [f"rank.{rank:02}" for rank in range(11)]
    assert names == ["env.json", "launcher.log", *ranks, "summary.json"]
    for rank in range(11):
        assert written(Path(f"rank.{rank:02}/stdout"), tmp_path) == f"{rank}\n".encode()
        assert written(Path(f"rank.{rank:02}/stderr"), tmp_path) == b"e\n"


def test_what_the_launcher_said_and_the_summary_are_beside_the_files(launcher, tmp_path):
    out, summary = tmp_path / "out", tmp_path / "summary"

    job = launcher.run(
        *("-np", 2, "--output-filename", out, "--summary", summary, "--verbose"),
        *only_rank(1, "echo oh >&2; exit 3"),
    )

    assert job.code == 3
    assert (out / "summary.json").read_bytes() == summary.read_bytes()
    lines = (out / "launcher.log").read_text().splitlines()
    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ")
    assert all(stamp.match(line) for line in lines), lines
    first, *said = [stamp.sub("", line) for line in lines]
    command = wording.WITHOUT_ARGUMENTS.format(program="sh", count=2)
    begins = wording.pattern(
        wording.LOG_BEGINS, pid=r"\d+", host=r"\S+", command=re.escape(command)
    )
    assert re.fullmatch(wording.PREFIX + begins, first)
    ends = wording.pattern(wording.LOG_ENDS, code=3, seconds=r"\d+\.\d")
    assert re.fullmatch(wording.PREFIX + ends, said.pop())
    assert [line for line in said if line.startswith("horovodrun: ")] == job.said
    assert f"command: {command}" in said
    assert wording.line(wording.OUTPUT_IS_IN, folder=out) in said


def test_a_job_that_could_not_start_has_a_log_too(launcher, tmp_path):
    out = tmp_path / "new" / "out"
    flags = ("-np", 9, "-H", "localhost:1", "--output-filename", out)

    assert launcher.run(*flags, "--dry-run", "true").code == 2
    assert not out.exists()
    job = launcher.run(*flags, "true")

    assert job.code == 2
    assert f"Z {job.said[-1]}\n" in (out / "launcher.log").read_text()
    assert summary_of(out / "summary.json", job)["reason"] == "start"


@pytest.mark.parametrize("name", ["launcher.log", "summary.json"])
def test_a_log_that_cannot_be_written_is_one_warning(launcher, tmp_path, name):
    (tmp_path / name / "in the way").mkdir(parents=True)

    job = launcher.run("-np", 1, "--output-filename", tmp_path, "echo", "a")

    assert (job.code, job.out) == (0, b"[0]<stdout>:a\n")
    assert (tmp_path / ({"launcher.log", "summary.json"} - {name}).pop()).is_file()
    (warning,) = job.said
    assert warning.startswith(wording.line(wording.CANNOT_KEEP, file="")) and name in warning
    assert written(Path("rank.0/stdout"), tmp_path) == b"a\n"


def test_what_a_rank_wrote_before_it_died_is_delivered(launcher, tmp_path):
    script = "import os; os.write(1, b'x' * 60000); os.kill(os.getpid(), 9)"

    job = launcher.run("-np", 1, "--output-filename", tmp_path, *python(script))

    assert job.code == 137
    assert written(Path("rank.0/stdout"), tmp_path) == b"x" * 60000
    assert job.out == b"[0]<stdout>:" + b"x" * 60000 + b"\n"


def test_output_of_a_descendant_after_its_rank_is_forwarded(launcher):
    script = only_rank(0, "(sleep 0.5; echo late) & printf early", others="sleep 3")

    job = launcher.run("-np", 2, *script)

    assert job.lines == ["[0]<stdout>:early", "[0]<stdout>:late"]


def test_a_slow_reader_loses_nothing(launcher):
    lines = 300_000
    script = f"for i in range({lines}): print('x' * 50, i)"

    with launcher.start("-np", 1, *python(script)) as job:
        time.sleep(1)  # the pipe and the window are full by then
        ended = job.end()

    assert ended.code == 0
    assert ended.lines == [f"[0]<stdout>:{'x' * 50} {i}" for i in range(lines)]


def test_a_reader_who_does_not_read_delays_neither_ends_nor_signals(launcher, tmp_path):
    script = only_rank(0, "yes", others=f"sleep 1; touch {tmp_path}/gone; exit 4")
    with launcher.start("-np", 2, *script) as job:

        def going_on() -> object:
            has_failed = (tmp_path / "gone").exists()
            return not has_failed or [one for one in below(job.process.pid) if one.name == "yes"]

        wait_until_none(going_on, 30)
        ended = job.end()

    assert ended.code == 4


def test_a_stuck_console_is_said_after_ten_seconds_and_can_be_left(launcher):
    with launcher.start("-np", 1, "sh", "-c", "sleep 3; exec yes") as job:
        os.set_blocking(job.process.stderr.fileno(), True)
        text = job.process.stderr.readline().decode()
        assert text.startswith(wording.line(wording.NOT_READ))
        assert 12 < time.monotonic() - job.began < 20
        job.signal(signal.SIGINT)
        assert job.process.stderr.readline().decode() == wording.line(wording.STOPPING) + "\n"
        time.sleep(0.3)
        job.signal(signal.SIGINT)

        assert job.process.wait(20) == 130


def test_a_full_disk_is_said_once_and_the_job_goes_on(launcher, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    script = "import os\nfor i in range(100): os.write(1, b'x' * 10000 + b'\\n')"
    arguments = ("-np", 1, "--output-filename", tmp_path, *python(script))
    prefix = (
        *("unshare", "--mount", "sh", "-c"),
        f'mount -t tmpfs -o size=64k none {tmp_path} && exec "$@"',
        "sh",
    )

    job = launcher.run(*arguments, prefix=prefix)

    if b"mount:" in job.err:
        pytest.skip("no tmpfs can be mounted here")
    assert len(job.lines) == 100
    assert sum(wording.DISK_FULL in line for line in job.said) == 1
    assert sum("summary.json" in line for line in job.said) == 1
    assert job.code == 125


def test_a_limit_of_file_sizes_is_said_once_and_the_job_goes_on(launcher, tmp_path):
    prefix = ("bash", "-c", 'ulimit -f 1; exec "$@"', "bash")
    script = "grep ^Sig[BI] /proc/self/status; seq 1000"

    job = launcher.run("-np", 1, "--output-filename", tmp_path, "sh", "-c", script, prefix=prefix)

    own = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=60)
    assert job.lines == [f"[0]<stdout>:{line}" for line in own.stdout.decode().splitlines()]
    lost = wording.FILE_TOO_LARGE.format(file=f"{tmp_path}/rank.0/stdout")
    assert sum(lost in line for line in job.said) == 1
    assert job.code == 125


@pytest.fixture
def stuck_folder(tmp_path):
    """A folder in which the output of rank 0 goes to a terminal that nobody reads."""
    master, slave = pty.openpty()
    (tmp_path / "rank.0").mkdir()
    (tmp_path / "rank.0/stdout").symlink_to(os.ttyname(slave))
    yield tmp_path
    os.close(slave)
    os.close(master)


def test_a_file_that_takes_nothing_holds_up_no_request_to_end(launcher, stuck_folder, tmp_path):
    summary = tmp_path / "summary"
    flags = ("-np", 1, "--output-filename", stuck_folder, "--summary", summary, "--grace", 1)
    with launcher.start(*flags, "yes") as job:
        job.wait_for(b"y")
        time.sleep(0.5)  # all windows are full by then
        job.signal(signal.SIGTERM)
        ended = job.end()

    assert ended.code == 143
    assert ended.seconds < 30
    lost = wording.FILE_STUCK.format(folder=stuck_folder)
    assert ended.said.count(wording.line(lost)) == 1
    assert summary_of(summary, ended)["warnings"][-1] == lost


def test_a_file_that_takes_nothing_is_given_up_at_ctrl_c_once_the_ranks_have_ended(
    launcher, stuck_folder
):
    flags = ("-np", 1, "--output-filename", stuck_folder, "--verbose")
    with launcher.start(*flags, "head", "-c", 1_000_000, "/dev/zero") as job:
        job.wait_for(wording.RANK_ENDED.format(rank=0).encode(), "err")
        time.sleep(0.5)
        job.signal(signal.SIGINT)
        ended = job.end()

    assert ended.code == 125
    assert ended.said[-1] == wording.line(wording.OUTPUT_LOST)


def test_a_pipe_in_the_place_of_a_ranks_file_is_refused(launcher, tmp_path):
    (tmp_path / "rank.0").mkdir()
    os.mkfifo(tmp_path / "rank.0/stderr")

    job = launcher.run("-np", 1, "--output-filename", tmp_path, "true")

    assert job.code == 2
    assert job.said == [wording.line(wording.NO_FILE, file=f"{tmp_path}/rank.0/stderr")]


@pytest.mark.parametrize("name", ["summary.json", "env.json"])
def test_a_link_below_the_folder_is_replaced_and_not_followed(launcher, tmp_path, name):
    (tmp_path / "precious").write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / name).symlink_to(tmp_path / "precious")

    job = launcher.run("-np", 1, "--output-filename", folder, "true")

    assert (job.code, job.said) == (0, [])
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (folder / name).is_symlink()
    assert json.loads((folder / name).read_text())


def test_standard_input_is_empty_unless_asked_for(launcher):
    script = ("sh", "-c", "wc -c")

    assert launcher.run("-np", 1, *script, stdin=subprocess.PIPE).out == b"[0]<stdout>:0\n"


@pytest.mark.parametrize("which, expected", [("all", [9, 9]), ("1", [0, 9])])
def test_standard_input_goes_to_the_ranks_that_want_it(launcher, tmp_path, which, expected):
    source = tmp_path / "input"
    source.write_bytes(b"some text")

    with source.open() as stdin:
        job = launcher.run("-np", 2, "--stdin", which, "wc", "-c", stdin=stdin)

    assert sorted(job.lines) == [f"[{rank}]<stdout>:{size}" for rank, size in enumerate(expected)]


def test_standard_input_stays_blocking_for_those_who_share_it(launcher):
    read, write = os.pipe()
    try:
        with launcher.start("-np", 1, "--stdin", "all", "cat", stdin=read) as job:
            os.write(write, b"hello\n")
            job.wait_for(b"hello")
            assert os.get_blocking(read)
            os.close(write)
            write = -1
            assert job.end().code == 0
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)


def test_sixty_four_ranks(launcher):
    job = launcher.run("-np", 64, "--bind-to", "none", "sh", "-c", "echo $HOROVOD_RANK")

    assert job.code == 0
    assert sorted(job.lines) == sorted(f"[{rank}]<stdout>:{rank}" for rank in range(64))
