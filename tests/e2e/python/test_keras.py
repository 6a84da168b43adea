# SPDX-License-Identifier: Apache-2.0
"""horovod.keras in jobs of several ranks: Keras 3 on TensorFlow ("keras") and on PyTorch ("torch"),
and tf_keras."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import wording
from ranks import PROGRAMS, Job, RunRanks

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

PROGRAM = "keras_training.py"
PARTS = (
    "keras_arguments.py",
    "keras_callbacks.py",
    "keras_large_batch.py",
    "keras_layers.py",
    "keras_values.py",
)
CASES = [
    case
    for source in (PROGRAM, *PARTS)
    for case in re.findall(r"^@case\ndef (\w+)\(", (PROGRAMS / source).read_text(), re.MULTILINE)
]
JOBS = [("keras", 1), ("keras", 2), ("keras", 4), ("tf_keras", 2), ("torch", 2)]


@pytest.fixture(scope="module")
def job_of(run_ranks: RunRanks, tmp_path_factory: pytest.TempPathFactory):
    """The program is run once for each Keras and number of ranks."""
    jobs: dict[tuple[str, int], Job] = {}

    def job(keras: str, ranks: int) -> Job:
        if importlib.util.find_spec(keras) is None:
            pytest.skip(f"{keras} is not installed")
        if (keras, ranks) not in jobs:
            env = {
                "TF_USE_LEGACY_KERAS": "1" if keras == "tf_keras" else "0",
                "KERAS_BACKEND": "torch" if keras == "torch" else "tensorflow",
                "OMP_NUM_THREADS": "1",
            }
            folder = tmp_path_factory.mktemp(keras)
            jobs[keras, ranks] = run_ranks(ranks, PROGRAM, str(folder), timeout=400, env=env)
        return jobs[keras, ranks]

    return job


@pytest.mark.parametrize(("keras", "ranks"), JOBS)
@pytest.mark.parametrize("case", CASES)
def test_training(job_of, case: str, keras: str, ranks: int) -> None:
    job = job_of(keras, ranks)
    for rank in range(ranks):
        assert f"ok {case}" in job.lines(rank), job


@pytest.mark.parametrize(("keras", "ranks"), JOBS)
def test_the_program_ends_well(job_of, keras: str, ranks: int) -> None:
    assert job_of(keras, ranks).exit_code == 0, job_of(keras, ranks)


@pytest.mark.parametrize(("keras", "ranks"), JOBS)
def test_rank_0_says_once_that_xla_is_left_out(job_of, keras: str, ranks: int) -> None:
    lines = [line for line in job_of(keras, ranks).stderr.splitlines() if "jit_compile=" in line]

    assert [line.split(":")[0] for line in lines] == ["[0]<stderr>"] * (keras == "keras"), lines


@pytest.mark.parametrize(("keras", "ranks"), JOBS)
def test_rank_0_tells_of_rates(job_of, keras: str, ranks: int) -> None:
    job = job_of(keras, ranks)
    assert sum("multiplier=0.5 " in line for line in job.stderr.splitlines()) == 1, job
    for rank in range(ranks):
        warmed_up = wording.beginning(wording.WARMED_UP)
        ends = [line for line in job.lines(rank) if warmed_up in line]
        assert len(ends) == (rank == 0), job


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_a_saved_model_is_loaded_without_horovod(tmp_path: Path) -> None:
    path = str(tmp_path / "model.keras")
    saved = run_python(
        f"""
import numpy as np, keras, horovod.keras as hvd
hvd.init()
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.25)), "mse")
model.fit(np.ones((8, 2)), np.ones(8), batch_size=4, verbose=0)
model.save({path!r})
"""
    )
    assert saved.returncode == 0, saved

    loaded = run_python(
        f"""
import sys, keras
model = keras.models.load_model({path!r})
assert type(model.optimizer) is keras.optimizers.Adam
assert "horovod" not in sys.modules
print(float(model.optimizer.learning_rate), int(model.optimizer.iterations))
"""
    )

    assert loaded.stdout.split() == ["0.25", "2"], loaded
