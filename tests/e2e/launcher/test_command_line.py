# SPDX-License-Identifier: Apache-2.0
"""What the command line, the config file and the host file may say, and what refuses them."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest
import wording
from commands import run_command

USAGE = 2


def refusal(job) -> str:
    """The one sentence with which a command line was refused, before anything was started."""
    assert job.code == USAGE
    assert job.out == b""
    (sentence,) = job.said
    return sentence.removeprefix("horovodrun: ")


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_the_version_is_printed_alone(launcher, flag):
    job = launcher.run(flag)

    assert job.code == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", job.out.decode())
    assert job.err == b""


def test_help_fits_a_terminal(launcher):
    job = launcher.run("--help")

    assert job.code == 0
    assert job.err == b""
    assert job.lines[0] == wording.USAGE
    assert max(map(len, job.lines)) <= 80
    assert len(job.lines) <= 24


def test_help_is_as_wide_as_the_terminal(launcher):
    stty = 'stty cols 110 && exec "$0" --help all'
    command = ["script", "-qec", f"sh -c '{stty}' {launcher.command()[0]}", "/dev/null"]
    shown = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    assert 100 < max(map(len, shown.stdout.decode().splitlines())) <= 110


@pytest.mark.parametrize("arguments", [["-np"], ["--dryrun", "true"], ["-np", "x", "true"], []])
def test_usage_errors_name_the_help(launcher, arguments):
    assert wording.TRY_HELP in launcher.run(*arguments).stderr


def test_an_error_in_a_file_or_a_variable_is_no_usage_error(launcher, tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("a b c: [\n")

    for job in (
        launcher.run("-hostfile", tmp_path / "none", "true"),
        launcher.run("-hostfile", bad, "true"),
        launcher.run("-np", 1, "--config-file", bad, "true"),
        launcher.run("-np", 1, "true", env={"HOROVOD_CYCLE_TIME": "x"}),
        launcher.run("-np", 1, "true", env={"HOROVOD_PORT_RANGE": "x"}),
        launcher.run("--join", "a:1", env={"HOROVOD_START_TIMEOUT": "x"}),
        launcher.run("true", env={"SLURM_JOB_NODELIST": "n[1-"}),
        launcher.run("true", env={"LSB_HOSTS": "a:4"}),
        launcher.run("--jsrun", "true", env={"LSB_HOSTS": "a:4"}),
        launcher.run("true", env={"OMPI_COMM_WORLD_RANK": "x", "OMPI_COMM_WORLD_SIZE": "2"}),
        launcher.run("-np", 1, "true", env={"HOROVOD_CALLER_FD": "99"}),
    ):
        assert job.code == USAGE
        assert b"Try" not in job.err


@pytest.mark.parametrize("flag", ["-cb", "--check-build"])
def test_check_build_has_the_layout_of_the_original(launcher, flag):
    job = launcher.run(flag)

    assert job.code == 0
    assert re.fullmatch(
        r"Horovod v[\d.]+:\n\n"
        r"Available Frameworks:\n"
        r"    \[[ X]\] TensorFlow\n    \[[ X]\] PyTorch\n    \[ \] MXNet\n\n"
        r"Available Controllers:\n"
        r"    \[[ X]\] MPI\n    \[X\] Gloo\n\n"
        r"Available Tensor Operations:\n"
        r"    \[[ X]\] NCCL\n    \[ \] DDL\n    \[ \] CCL\n    \[[ X]\] MPI\n    \[X\] Gloo\n",
        job.out.decode(),
    )


@pytest.mark.parametrize("flag", ["-v", "--verbose"])
def test_check_build_tells_places_where_asked(launcher, flag):
    assert wording.GLOO in launcher.run("--check-build", flag).stdout


def test_check_build_finds_frameworks_without_running_their_code(launcher, tmp_path):
    for name in ("torch", "tensorflow"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")

    job = launcher.run("-cb", env={"PYTHONPATH": str(tmp_path)})

    assert "    [X] TensorFlow" in job.lines
    assert "    [X] PyTorch" in job.lines
    assert not (tmp_path / "imported").exists()


def test_the_commands_own_arguments_reach_it_untouched(launcher):
    show = "import sys; print(sys.argv[1:])"
    words = ["-np", "7", "--help", "", "a b", "--", "$HOME", "*", "-x'\""]

    job = launcher.run("-np", 1, sys.executable, "-c", show, *words)

    assert job.lines == [f"[0]<stdout>:{words}"]


def test_np_2_of_four_slots_runs_2(launcher):
    job = launcher.run("-np", 2, "-H", "localhost:4", "echo", "here")

    assert job.code == 0
    assert sorted(job.lines) == ["[0]<stdout>:here", "[1]<stdout>:here"]


def test_hosts_without_np_run_a_rank_in_every_slot(launcher, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text(
        f"# this machine under two names\nlocalhost slots=2\n{socket.gethostname()}:1\n"
    )

    assert len(launcher.run("-H", "localhost:3", "echo").lines) == 3
    assert len(launcher.run("-hostfile", hosts, "echo").lines) == 3


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["true"], wording.NO_NP),
        (["-np", "2"], wording.NO_COMMAND),
        (
            ["-np", "2", "--env", "HOROVOD_CYCLE_TIME=-1", "true"],
            wording.MUST_BE.format(name="HOROVOD_CYCLE_TIME", value=-1),
        ),
        (
            ["python", "s.py", "-np", "2"],
            wording.BEHIND_COMMAND.format(flag="-np", command="python"),
        ),
        (["-np", "zwei", "true"], wording.NOT_WHOLE.format(flag="-np", value="zwei")),
        (
            ["-np", "2", "--gpu-bin", "env", "true"],
            wording.DID_YOU_MEAN.format(flag="--gpu-bind"),
        ),
        (
            ["-np", "5", "-H", "localhost:4", "true"],
            wording.MORE_THAN_SLOTS.format(np=5, slots=4),
        ),
        (["-np", "2", "-H", "localhost:1,^node3", "true"], wording.NO_HOST_TO_OMIT),
        (["-np", "2", "--min-np", "1", "true"], wording.NOT_ELASTIC),
        (["-np", "2", "--jsrun", "true"], wording.JSRUN_OUTSIDE),
        (["-np", "2", "--mpi-args=-x A", "true"], wording.FOR_MPIRUN),
        (["-np", "10000", "--no-oversubscribe", "true"], wording.RANKS_ON.format(ranks=10000)),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(launcher, arguments, sentence):
    assert sentence in refusal(launcher.run(*arguments))


def test_a_bad_line_of_a_host_file_is_named_with_its_place(launcher, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\nlocalhost slots=many\n")

    job = launcher.run("-hostfile", hosts, "true")

    assert refusal(job) == wording.SLOTS_BAD.format(place=f"{hosts}:2:17", slots="many")


def test_a_host_file_may_come_by_standard_input(launcher, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("# from a queue\nlocalhost slots=2\n")

    with hosts.open() as stream:
        job = launcher.run("-hostfile", "-", "echo", "here", stdin=stream)

    assert sorted(job.lines) == ["[0]<stdout>:here", "[1]<stdout>:here"], job.err


def test_a_bad_line_of_standard_input_is_named_with_its_place(launcher, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost\n^elsewhere\n")

    with hosts.open() as stream:
        said = refusal(launcher.run("-hostfile", "-", "true", stdin=stream))

    assert said.startswith(wording.HOST_BAD.format(place="standard input:2:1", host="^elsewhere"))


@pytest.mark.parametrize("flag", [("--stdin", "all"), ("--stdin", "0")])
def test_hosts_and_ranks_do_not_share_standard_input(launcher, flag):
    said = refusal(launcher.run("-hostfile", "-", *flag, "true"))

    assert said == wording.TWO_READ_INPUT


def test_settings_of_flags_and_config_file_reach_the_ranks_and_flags_win(launcher, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(
        "params: {cycle_time_ms: 9, cache_capacity: 5}\nlogging: {hide_timestamp: on}\n"
    )
    script = "echo $HOROVOD_CYCLE_TIME $HOROVOD_CACHE_CAPACITY $HOROVOD_LOG_HIDE_TIME"

    job = launcher.run("-np", 1, "--cycle-time-ms", 2, "--config-file", config, "sh", "-c", script)

    assert job.lines == ["[0]<stdout>:2 5 1"]


def test_an_unknown_key_of_the_config_file_is_an_error_with_its_line(launcher, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("params:\n  cycle_time: 9\n")

    job = launcher.run("-np", 1, "--config-file", config, "true")

    assert refusal(job) == wording.UNKNOWN_KEY.format(
        place=f"{config}:2", key="cycle_time", section="params", near="cycle_time_ms"
    )


def test_a_missing_python_names_python3(launcher, tmp_path):
    python3 = tmp_path / "python3"
    python3.write_text("#!/bin/sh\n")
    python3.chmod(0o755)

    job = launcher.run("-np", 1, "python", "train.py", env={"PATH": str(tmp_path)})

    assert job.code == 127
    assert any(wording.HAS_PYTHON3 in line for line in job.said)


def test_more_ranks_than_cpus_are_a_warning(launcher):
    job = launcher.run("-np", 3, "true", prefix=("taskset", "-c", "0"))

    assert job.code == 0
    assert job.said == [wording.line(wording.SHARED_CPUS, ranks=3, cpus=1, host="localhost")]


def test_a_long_command_line_reaches_many_ranks(launcher):
    script = "[ $# = 11 ] && echo ${#11}"
    long = ["x" * 100_000] * 11

    job = launcher.run("-np", 64, "--bind-to", "none", "bash", "-c", script, "bash", *long)

    assert (job.code, len(job.lines)) == (0, 64)
    assert all(line.endswith(":100000") for line in job.lines)


def test_more_ranks_than_cpus_can_bear_are_refused_with_the_numbers(launcher):
    ended = launcher.run("-np", 100_000, "true")

    assert ended.code == 2
    assert wording.RANKS_ON.format(ranks=100000) in ended.stderr
    assert wording.TOO_MANY_RANKS in ended.stderr


def test_many_ranks_are_held_against_the_limits_of_one_machine_too(launcher):
    shell = 'ulimit -n 512 && exec "$0" "$@"'
    command = launcher.command("-np", 300, "--oversubscribe", "true")

    ended = run_command("sh", "-c", shell, *command, timeout=60)

    assert ended.code == 2, ended.stderr
    assert wording.beginning(wording.HARD_LIMIT, limit=512) in ended.stderr
