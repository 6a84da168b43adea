# SPDX-License-Identifier: Apache-2.0
"""What the command line, the config file and the host file may say, and what refuses them."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

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
    assert job.lines[0] == "Usage: horovodrun [flags] command [argument...]"
    assert max(map(len, job.lines)) <= 80
    assert len(job.lines) <= 24


def test_help_is_as_wide_as_the_terminal(launcher):
    stty = 'stty cols 110 && exec "$0" --help all'
    command = ["script", "-qec", f"sh -c '{stty}' {launcher.command()[0]}", "/dev/null"]
    shown = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    assert 100 < max(map(len, shown.stdout.decode().splitlines())) <= 110


@pytest.mark.parametrize("arguments", [["-np"], ["--dryrun", "true"], ["-np", "x", "true"], []])
def test_usage_errors_name_the_help(launcher, arguments):
    assert b"\nTry 'horovodrun --help'.\n" in launcher.run(*arguments).err


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
    assert b"\nGloo: the native transport" in launcher.run("--check-build", flag).out


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
        (["true"], "say how many ranks to start: -np N"),
        (["-np", "2"], "there is no command"),
        (
            ["-np", "2", "--env", "HOROVOD_CYCLE_TIME=-1", "true"],
            "HOROVOD_CYCLE_TIME=-1: '-1' must",
        ),
        (["python", "s.py", "-np", "2"], "-np stands behind the command 'python'"),
        (["-np", "zwei", "true"], "-np zwei: must be a whole number from 1 to 1048576"),
        (["-np", "2", "--gpu-bin", "env", "true"], "did you mean --gpu-bind?"),
        (["-np", "5", "-H", "localhost:4", "true"], "-np 5 is more than the 4 slots"),
        (["-np", "2", "-H", "localhost:1,^node3", "true"], "no such host to leave out"),
        (
            ["-np", "2", "--min-np", "1", "true"],
            "--min-np 1: elastic jobs are not part of",
        ),
        (["-np", "2", "--jsrun", "true"], "--jsrun starts ranks inside of an LSF job"),
        (["-np", "2", "--mpi-args=-x A", "true"], "are for mpirun; add --mpi or --jsrun"),
        (["-np", "10000", "--no-oversubscribe", "true"], "10000 ranks on the "),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(launcher, arguments, sentence):
    assert sentence in refusal(launcher.run(*arguments))


def test_a_bad_line_of_a_host_file_is_named_with_its_place(launcher, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\nlocalhost slots=many\n")

    job = launcher.run("-hostfile", hosts, "true")

    assert refusal(job) == f"{hosts}:2:17: slots=many must be from 1 to 65536"


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

    assert said.startswith("standard input:2:1: host '^elsewhere'")


@pytest.mark.parametrize("flag", [("--stdin", "all"), ("--stdin", "0")])
def test_hosts_and_ranks_do_not_share_standard_input(launcher, flag):
    said = refusal(launcher.run("-hostfile", "-", *flag, "true"))

    assert said == "-hostfile - and --stdin both read standard input; give the hosts in a file"


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

    assert refusal(job) == (
        f"{config}:2: unknown key 'cycle_time' in 'params'; did you mean 'cycle_time_ms'?"
    )


def test_a_missing_python_names_python3(launcher, tmp_path):
    python3 = tmp_path / "python3"
    python3.write_text("#!/bin/sh\n")
    python3.chmod(0o755)

    job = launcher.run("-np", 1, "python", "train.py", env={"PATH": str(tmp_path)})

    assert job.code == 127
    assert any("'python3' is there, write that" in line for line in job.said)


def test_more_ranks_than_cpus_are_a_warning(launcher):
    job = launcher.run("-np", 3, "true", prefix=("taskset", "-c", "0"))

    assert job.code == 0
    assert job.said == [
        "horovodrun: 3 ranks on the 1 CPU of localhost will be slow: "
        + "they share them, none is pinned"
    ]


def test_a_long_command_line_reaches_many_ranks(launcher):
    script = "[ $# = 11 ] && echo ${#11}"
    long = ["x" * 100_000] * 11

    job = launcher.run("-np", 64, "--bind-to", "none", "bash", "-c", script, "bash", *long)

    assert (job.code, len(job.lines)) == (0, 64)
    assert all(line.endswith(":100000") for line in job.lines)


def test_more_ranks_than_cpus_can_bear_are_refused_with_the_numbers(launcher):
    ended = launcher.run("-np", 100_000, "true")

    assert ended.code == 2
    assert b"100000 ranks on the " in ended.err
    assert b"are more than 64 for each CPU" in ended.err


def test_many_ranks_are_held_against_the_limits_of_one_machine_too(launcher):
    shell = 'ulimit -n 512 && exec "$0" "$@"'
    command = launcher.command("-np", 300, "--oversubscribe", "true")

    ended = subprocess.run(["sh", "-c", shell, *command], capture_output=True, timeout=60)

    assert ended.returncode == 2, ended.stderr
    assert b"the hard limit of open files is 512, and its ranks may need " in ended.stderr
