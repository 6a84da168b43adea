# SPDX-License-Identifier: Apache-2.0
"""horovod.classic: scripts with the calls of Keras 2 and TensorFlow 1, in their order."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import wording
from ranks import PROGRAMS, Job

import horovod.classic

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytest.importorskip("tf_keras", reason="tf_keras is not installed")
pytest.importorskip("scipy", reason="SciPy, for augmentation, is not installed")

FOLDER = PROGRAMS / "classic"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
CORPUS = Path("/usr/share/common-licenses/GPL-3")
IMAGES = {"train": 2000, "t10k": 500}
SAID = re.compile(r"(?:\[(\d+)\]<stderr>:)?horovod\.classic: (\S+):(\d+): (.*?) is (.*)")


def read_idx(path: Path, count: int) -> np.ndarray:
    data = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)[:count]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for --data: 2,000 images of Fashion-MNIST, and a small corpus."""
    folder = tmp_path_factory.mktemp("data")
    arrays = {}
    for split, name in (("train", "train"), ("t10k", "test")):
        count = IMAGES[split]
        arrays[f"x_{name}"] = read_idx(DEBIAN / f"{split}-images-idx3-ubyte.gz", count)
        arrays[f"y_{name}"] = read_idx(DEBIAN / f"{split}-labels-idx1-ubyte.gz", count)
    np.savez(folder / "mnist.npz", **arrays)
    np.savez(folder / "fashion_mnist.npz", **arrays)
    with zipfile.ZipFile(folder / "text8.zip", "w") as archive:
        archive.write(CORPUS, "text8")
    return folder


def environment(**more: str) -> dict[str, str]:
    """With the keras_contrib of the tests, which has one network."""
    path = [str(FOLDER / "packages"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path)), "OMP_NUM_THREADS": "1", **more}


@pytest.fixture(scope="module")
def run(horovodrun: Path, data: Path) -> Callable[..., Job]:
    """run(ranks, script, *arguments): the script under horovodrun; it must succeed."""

    def run(ranks: int, script: str, *arguments: str) -> Job:
        command = [str(horovodrun), "-np", str(ranks), sys.executable, "-m", "horovod.classic"]
        result = subprocess.run(
            [*command, "--data", str(data), str(FOLDER / script), *arguments],
            env={**os.environ, **environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        job = Job(result.returncode, result.stdout, result.stderr)
        assert job.exit_code == 0, job
        return job

    return run


def alone(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "horovod.classic", *arguments],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )


def substitutions(stderr: str) -> list[str]:
    """The names that rank 0 has reported, in order; no other rank reports any."""
    found = list(filter(None, map(SAID.fullmatch, stderr.splitlines())))
    assert all(match[1] in (None, "0") for match in found)
    return [match[4] for match in found]


def line_of(script: Path, beginning: str) -> int:
    lines = script.read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if line.strip().startswith(beginning))


def number(lines: list[str], label: str) -> float:
    (found,) = (line for line in lines if line.startswith(label))
    return float(found.removeprefix(label))


@pytest.fixture(scope="module")
def course(run, tmp_path_factory: pytest.TempPathFactory):
    """The course's script with 4 ranks, and where it has left its checkpoint."""
    folder = tmp_path_factory.mktemp("course")
    options = ("--batch-size", "100", "--val-batch-size", "100", "--target-accuracy", "0")
    options += ("--patience", "1", "--log-dir", str(folder), "--base-lr", "0.02")
    job = run(4, "keras_fashion_mnist.py", "--epochs", "2", *options)
    return job, folder, options


def test_the_course_with_four_ranks(course) -> None:
    job, folder, _ = course
    lines = job.lines(0)
    assert number(lines, "Images/sec: ") > 0, job
    assert number(lines, "Cumulative training time after epoch 1: ") > 0, job
    assert "Early stopping after epoch 1" in lines, job
    assert 0 <= number(lines, "Test accuracy: ") <= 1 and number(lines, "Test loss: ") > 0, job
    assert any(wording.WARMED_UP.format(rate="0.08") in line for line in lines), job
    for rank in range(4):
        assert "weights are the same: True" in job.lines(rank), job
    assert all(len(job.lines(rank)) == 1 for rank in (1, 2, 3)), job
    assert (folder / "checkpoint-1.h5").is_file()


def test_every_substitution_is_printed_once_by_rank_0(course) -> None:
    job, _, _ = course
    said = substitutions(job.stderr)
    assert len(said) == len(set(said)), said
    expected = {
        "Model.evaluate_generator",
        "Model.fit_generator",
        "keras",
        "keras.backend.set_session",
        "keras.datasets.fashion_mnist.load_data()",
        "keras.engine.topology",
        "keras.losses.categorical_crossentropy",
        "keras.optimizers.SGD",
        "keras.preprocessing",
        "logs['val_acc']",
        "tf.ConfigProto",
        "tf.Session",
    }
    assert expected <= set(said), expected - set(said)


def test_the_course_goes_on_without_launcher_and_gpu(course, data: Path) -> None:
    _, folder, options = course
    script = str(FOLDER / "keras_fashion_mnist.py")
    env = environment(CUDA_VISIBLE_DEVICES="")
    again = alone("--data", str(data), script, "--epochs", "2", *options, **env)

    assert again.returncode == 0, again
    assert "Epoch 2/2" in again.stdout and "Epoch 1/2" not in again.stdout, again
    assert number(again.stdout.splitlines(), "Test loss: ") > 0, again
    assert (folder / "checkpoint-2.h5").is_file()


def test_the_course_with_one_rank(run) -> None:
    job = run(1, "keras_fashion_mnist.py", "--epochs", "1", "--batch-size", "200")
    # Ten steps from random weights may end below chance.
    assert 0 <= number(job.lines(0), "Test accuracy: ") <= 1, job
    assert number(job.lines(0), "Test loss: ") > 0, job


def test_keras_with_augmentation_and_warm_up(run, tmp_path: Path) -> None:
    job = run(2, "keras_mnist.py", "3", str(tmp_path))

    assert (tmp_path / "checkpoint-3.h5").is_file()
    for rank in range(2):
        lines = job.lines(rank)
        # 1.0 for each of two ranks, then the constant factor of the schedule.
        assert number(lines, "Learning rate: ") == 1.0, job
        assert number(lines, "Test accuracy: ") > 0.3, job
    accuracies = [number(job.lines(rank), "Validation accuracy: ") for rank in range(2)]
    assert accuracies[0] == accuracies[1], job
    assert "keras.utils.np_utils" in substitutions(job.stderr), job


def test_tensorflow_with_a_hook_and_a_monitored_session(run, tmp_path: Path) -> None:
    job = run(2, "tensorflow_mnist.py", "120", str(tmp_path))

    assert (tmp_path / "model.ckpt-60.index").is_file()
    for rank in range(2):
        lines = job.lines(rank)
        assert "weights are the same: True" in lines, job
        (steps,) = (line for line in lines if line.startswith("60 steps, loss from"))
        first, last = map(float, re.findall(r"\d+\.\d+", steps))
        assert last < first - 0.1, job
    said = substitutions(job.stderr)
    assert {"tf.estimator.ModeKeys", "tf.layers.conv2d", "tf.keras"} <= set(said), said


def test_word2vec_with_sparse_gradients(run, tmp_path: Path) -> None:
    job = run(2, "tensorflow_word2vec.py", "300", str(tmp_path))

    for rank in range(2):
        loss, same = job.lines(rank)
        first, last = map(float, re.findall(r"\d+\.\d+", loss))
        assert last < first - 3, job
        assert same == "weights are the same: True", job


def test_what_cannot_be_mapped_is_an_error_with_line_and_successor() -> None:
    script = FOLDER / "estimator.py"

    failed = alone(str(script))

    assert failed.returncode == 1, failed
    value, package, slim, contrib, multi_gpu = failed.stdout.splitlines()
    assert value == "train"
    for message, beginning, name, successor in (
        (package, "import keras_contrib", "keras_contrib", "keras.applications"),
        (slim, "from tensorflow.contrib", "tensorflow.contrib", "look for its parts in tf"),
        (contrib, "from tensorflow import contrib", "tf.contrib", "look for its parts in tf"),
        (multi_gpu, "from keras.utils", "keras.utils.multi_gpu_model", "horovodrun -np N"),
    ):
        assert message.startswith(f"{script}:{line_of(script, beginning)}: {name} "), failed
        assert successor in message, failed
    last = failed.stderr.strip().splitlines()[-1]
    line = line_of(script, "classifier = ")
    assert f"{script}:{line}: tf.estimator.Estimator does not exist any more" in last
    assert "MonitoredTrainingSession" in last


def test_the_course_needs_keras_contrib(data: Path) -> None:
    script = FOLDER / "keras_fashion_mnist.py"

    failed = alone("--data", str(data), str(script))

    assert failed.returncode == 1, failed
    last = failed.stderr.strip().splitlines()[-1]
    line = line_of(script, "from keras_contrib")
    assert f"{script}:{line}: keras_contrib is not installed" in last, failed


def test_without_data_the_images_are_those_of_debian(tmp_path: Path) -> None:
    script = tmp_path / "load.py"
    script.write_text(
        "from keras.datasets import fashion_mnist, mnist\n"
        "(x, y), (tests, classes) = mnist.load_data()\n"
        "print(x.shape, y.shape, tests.shape, classes.shape)\n"
        "print((fashion_mnist.load_data()[0][0] == x).all(), list(y[:5]))\n"
    )

    ended = alone(str(script))

    shapes, same = ended.stdout.splitlines()
    assert shapes == "(60000, 28, 28) (60000,) (10000, 28, 28) (10000,)", ended
    assert same == f"True {list(read_idx(DEBIAN / 'train-labels-idx1-ubyte.gz', 5))}"
    assert f"is read from {DEBIAN}" in ended.stderr


def test_a_function_of_a_notebook_is_wrapped() -> None:
    ended = subprocess.run(
        [sys.executable, str(FOLDER / "functions.py")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert ended.stdout.splitlines() == [
        "trained: 2 True",
        "of globals: 3.0 keras tf_keras True",
    ], ended.stderr
    assert ": tf.ConfigProto is tf.compat.v1.ConfigProto" in ended.stderr


def test_a_function_with_the_frameworks_of_today_is_refused() -> None:
    names = {"layers": ModuleType("tensorflow.layers")}
    exec("def train():\n    return layers.dense\n", names)

    with pytest.raises(ValueError, match="train uses layers, which this program has imported"):
        horovod.classic.wrap(names["train"])


def test_wrong_usage_is_refused(tmp_path: Path) -> None:
    missing = alone(str(tmp_path / "train.py"))
    assert missing.returncode == 2 and "there is no script" in missing.stderr, missing
    script = str(FOLDER / "estimator.py")
    folder = alone("--data", str(tmp_path / "none"), script)
    assert folder.returncode == 2 and "there is no such folder" in folder.stderr, folder
