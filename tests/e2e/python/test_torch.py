# SPDX-License-Identifier: Apache-2.0
"""horovod.torch in jobs of several ranks."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import wording
from ranks import PROGRAMS, Job, RunRanks

pytest.importorskip("torch", reason="PyTorch is not installed")


def cases_of(program: str) -> list[str]:
    """The names of a program's cases, without running it."""
    return re.findall(r"^@case\ndef (\w+)\(", (PROGRAMS / program).read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def job_of(run_ranks: RunRanks):
    """A program of cases is run once for each number of ranks."""
    jobs: dict[tuple[str, int], Job] = {}

    def job(program: str, ranks: int) -> Job:
        if (program, ranks) not in jobs:
            jobs[program, ranks] = run_ranks(ranks, program, env={"OMP_NUM_THREADS": "1"})
        return jobs[program, ranks]

    return job


# One job for each number of ranks covers all cases of a program.
RANKS = {
    "torch_ops.py": (1, 2, 3, 4),
    "torch_collectives.py": (1, 2, 3, 4),
    "torch_sets.py": (1, 2, 3, 4),
    "torch_optimizer.py": (1, 2, 4),
    "torch_state.py": (1, 2, 3, 4),
    "torch_faults.py": (1, 2, 3),
    "torch_gpu_requests.py": (1,),
}


@pytest.mark.parametrize(
    ("program", "case", "ranks"),
    [
        (program, case, ranks)
        for program, numbers in RANKS.items()
        for ranks in numbers
        for case in cases_of(program)
    ],
)
def test_cases(job_of, program: str, case: str, ranks: int) -> None:
    job = job_of(program, ranks)
    for rank in range(ranks):
        assert f"ok {case}" in job.lines(rank), str(job)


@pytest.mark.parametrize("program", RANKS)
def test_programs_end_well(job_of, program: str) -> None:
    for ranks in RANKS[program]:
        job = job_of(program, ranks)
        assert job.exit_code == 0, str(job)
        for rank in range(ranks):
            assert f"world {rank} {ranks}" in job.lines(rank), str(job)


def test_a_script_of_the_original_runs_unchanged(run_ranks: RunRanks) -> None:
    job = run_ranks(2, "original_style.py", "--fp16-allreduce")

    assert job.exit_code == 0, str(job)
    for rank in range(2):
        assert f"rank {rank} of 2 same True" in job.lines(rank), str(job)
    assert any(line.startswith("epoch 2 batches 7 loss") for line in job.lines(0)), str(job)


@pytest.mark.parametrize("how", ["exception", "replaced-hook", "slow-exception"])
def test_an_uncaught_exception_makes_its_rank_the_culprit(run_ranks: RunRanks, how: str) -> None:
    job = run_ranks(3, "torch_failure.py", how)

    assert job.exit_code == 1, str(job)
    assert job.culprit == 1, str(job)
    error = wording.pattern(wording.LAST_LINE, text=".*KeyError: 'the reason'")
    assert re.search(wording.PREFIX + error, job.stderr), str(job)
    assert "also_failed" not in job.classes, str(job)


def test_averages_may_leave_out_ranks_that_have_joined(run_ranks: RunRanks) -> None:
    over_others = {"HOROVOD_AVERAGE_OVER": "contributing"}

    job = run_ranks(3, "torch_average.py", env=over_others)

    assert job.exit_code == 0, str(job)
    for rank in range(3):
        assert "averaged" in job.lines(rank), str(job)
    job = run_ranks(2, "torch_average.py", "differ", env=over_others)
    for rank in range(2):
        (said,) = [line for line in job.lines(rank) if line.startswith("refused:")]
        assert "differs" in said and wording.AVERAGE_DIFFERS in said, said


def test_an_exit_code_makes_its_rank_the_culprit(run_ranks: RunRanks) -> None:
    job = run_ranks(3, "torch_failure.py", "exit")

    assert job.exit_code == 9, str(job)
    assert job.culprit == 1, str(job)


def test_a_rank_that_leaves_while_others_wait_is_the_culprit(
    run_ranks: RunRanks,
) -> None:
    job = run_ranks(3, "torch_failure.py", "leave")

    assert job.exit_code == 1, str(job)
    assert (job.culprit, job.summary["reason"]) == (1, "left_early"), str(job)
    left = wording.line(wording.culprit(1))
    (line,) = (line for line in job.stderr.splitlines() if line.startswith(left))
    assert wording.OF_EARLY_END in line, str(job)
    for rank in (0, 2):
        (said,) = [line for line in job.lines(rank) if line.startswith("failed at")]
        assert "rank 1 " in said and "drop_last" in said and "hvd.join()" in said, said


def moment(what: str, output: str) -> float:
    """When a rank wrote that it was killed or failed, on the clock that all ranks share."""
    return float(re.search(rf"{what} at ([\d.]+)", output)[1])


@pytest.mark.parametrize("how", ["kill", "kill-with-workers"])
def test_a_killed_rank_fails_the_others_and_is_named(run_ranks: RunRanks, how: str) -> None:
    job = run_ranks(3, "torch_failure.py", how)

    assert job.exit_code == 128 + 9, str(job)
    assert job.culprit == 1, str(job)
    for rank in (0, 2):
        output = "\n".join(job.lines(rank))
        assert re.search(r"failed at [\d.]+: .*rank 1 ", output), str(job)
        assert moment("failed", output) - moment("killed", "\n".join(job.lines(1))) < 1.0, str(job)


def test_ctrl_c_ends_ranks_that_wait_for_another(horovodrun: Path) -> None:
    command = [
        horovodrun,
        "-np",
        "2",
        sys.executable,
        PROGRAMS / "torch_failure.py",
        "never",
    ]
    job = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert job.stdout is not None
        assert any("waiting" in line for line in job.stdout)
        begin = time.monotonic()
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=60)
    finally:
        job.kill()

    assert time.monotonic() - begin < 8, errors  # the grace is 10 s
    assert job.returncode == 128 + signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors


def accuracy_of(job: Job) -> float:
    assert job.exit_code == 0, str(job)
    (line,) = [line for line in job.lines(0) if line.startswith("Test accuracy: ")]
    return float(line.removeprefix("Test accuracy: "))


def test_four_ranks_learn_as_much_as_one(run_ranks: RunRanks, root: Path) -> None:
    example = root / "examples/torch_fashion_mnist.py"
    steps = ["--epochs", "1", "--batches-per-epoch", "150"]

    one = run_ranks(1, example, *steps, "--batch-size", "64", "--base-lr", "0.04")
    four = run_ranks(4, example, *steps, "--batch-size", "16", "--base-lr", "0.01")

    assert accuracy_of(one) > 0.72, str(one)
    assert abs(accuracy_of(one) - accuracy_of(four)) < 0.04, f"{one}\n{four}"
    assert any(re.fullmatch(r"Images/sec: [\d.]+", line) for line in four.lines(0)), str(four)


MPI_LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"],
    "mpich": ["mpiexec.hydra"],
}


@pytest.mark.parametrize("launcher", MPI_LAUNCHERS)
def test_ranks_find_each_other_under_mpirun(launcher: str) -> None:
    command = MPI_LAUNCHERS[launcher]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    cases = [
        "sums_are_exact_for_every_type_and_shape",
        "init_and_shutdown_may_be_repeated",
    ]
    result = subprocess.run(
        [*command, "-np", "2", sys.executable, str(PROGRAMS / "torch_ops.py"), *cases],
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    for line in ("world 0 2", "world 1 2"):
        assert result.stdout.count(line) == 1, result.stdout
    for case in cases:
        assert result.stdout.count(f"ok {case}") == 2, result.stdout


WORLDS = """
from horovod.common.basics import basics
for _ in range(2):
    basics.init()
    print("rank", basics.rank(), "of", basics.size(), flush=True)
    basics.shutdown()
"""


@pytest.mark.parametrize("transport", ["", "tcp"])
def test_programs_that_a_rank_runs_one_after_the_other_each_have_worlds(
    horovodrun: Path, transport: str
) -> None:
    script = f'{sys.executable} -c "$0" && {sys.executable} -c "$0"'
    env = {**os.environ, "HOROVOD_CPU_OPERATIONS": transport}

    ended = subprocess.run(
        [horovodrun, "-np", "2", "sh", "-c", script, WORLDS],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("rank 0 of 2") == ended.stdout.count("rank 1 of 2") == 4


def test_a_script_of_torch_distributed_starts_too(run_ranks: RunRanks) -> None:
    job = run_ranks(2, "torch_distributed.py", env={"OMP_NUM_THREADS": "1"})

    assert job.exit_code == 0, job
    for rank in range(2):
        assert job.lines(rank) == [f"rank {rank} of 2: 3", f"local rank {rank} of 2"], job


def test_a_missing_framework_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    result = subprocess.run(
        [sys.executable, "-c", "import horovod.torch"],
        env={
            **os.environ,
            "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )

    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: horovod.torch needs PyTorch, which "), result.stderr


def test_neither_torch_distributed_nor_mpi4py_is_imported(run_ranks: RunRanks) -> None:
    job = run_ranks(2, "imports.py")

    assert job.exit_code == 0, str(job)
