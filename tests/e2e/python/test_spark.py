# SPDX-License-Identifier: Apache-2.0
"""horovod.spark on a real Spark: a cluster of two executors on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark import SparkContext
from spark_cluster import SETTINGS, SPARKDL
from support.processes import Process, process, table, wait_until_ended

import horovod.spark
from horovod.runner.errors import HorovodRankError
from horovod.runner.spark_task import PYTHON, TASKS
from horovod.spark import HorovodRunner, LostTaskError, function_job

TIME_LIMIT = 60  # seconds
TOKEN = "0123456789abcdef" * 4


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """As if a cell had defined it: a rank cannot import it."""
    function.__module__ = "__main__"
    return function


def executors() -> list[int]:
    return [one.pid for one in table() if is_executor(one)]


def is_executor(one: Process) -> bool:
    return any("CoarseGrainedExecutorBackend" in word for word in one.command)


def lines_of(file: Path, count: int) -> list[str]:
    """What ranks have appended, once there are so many lines."""
    deadline = time.monotonic() + TIME_LIMIT
    while not file.exists() or len(file.read_text().splitlines()) < count:
        assert time.monotonic() < deadline, "the ranks do not begin"
        time.sleep(0.05)
    return file.read_text().splitlines()


def waiting(file: Path) -> Callable[[], None]:
    """A function that tells its process and waits."""
    path = str(file)

    @by_value
    def wait() -> None:
        import os
        import time

        with open(path, "a") as out:
            out.write(f"{os.getpid()}\n")
        time.sleep(600)

    return wait


# ---- run ----------------------------------------------------------------------------------------


def test_the_ranks_are_tasks_with_the_folder_and_the_path_of_their_worker(
    spark: SparkContext, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shipped_module.py").write_text("VALUE = 7\n")
    spark.addPyFile(str(tmp_path / "shipped_module.py"))

    @by_value
    def describe(first: int, *, second: str) -> tuple[Any, ...]:
        import os

        import shipped_module
        import torch

        import horovod.torch as hvd

        hvd.init()
        print("described", flush=True)
        total = hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
        local = (hvd.local_rank(), hvd.local_size())
        return (
            hvd.rank(),
            local,
            total,
            shipped_module.VALUE,
            os.getcwd(),
            os.environ["MARK"],
        )

    results = horovod.spark.run(describe, (1,), {"second": "b"}, num_proc=3, env={"MARK": "m"})

    assert [result[:4] for result in results] == [(rank, (rank, 3), 3.0, 7) for rank in range(3)]
    assert {result[5] for result in results} == {"m"}
    assert len({result[4] for result in results}) == 2  # of the two executors
    assert capfd.readouterr().out.count("<stdout>:described") == 3


def test_an_exception_of_a_rank_is_raised_and_nothing_runs_twice(
    spark: SparkContext, tmp_path: Path
) -> None:
    file = str(tmp_path / "calls")

    @by_value
    def fail() -> None:
        import os

        with open(file, "a") as out:
            out.write("called\n")
        raise ValueError(f"no data for {os.environ['HOROVOD_RANK']}")

    with pytest.raises(HorovodRankError, match="ValueError: no data for "):
        horovod.spark.run(fail, num_proc=2)
    assert Path(file).read_text() == "called\ncalled\n"


def test_the_secret_is_in_no_argument_environment_setting_or_event(
    spark: SparkContext, spark_events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_job.secrets, "token_hex", lambda size: TOKEN[: 2 * size])

    @by_value
    def look(secret: str) -> list[str]:
        from pathlib import Path

        found = []
        for part in ("cmdline", "environ"):
            for file in Path("/proc").glob(f"[0-9]*/{part}"):
                try:
                    if secret.encode() in file.read_bytes():
                        found.append(str(file))
                except OSError:
                    pass
        return found

    assert horovod.spark.run(look, (TOKEN,), num_proc=1) == [[]]
    assert TOKEN not in str(spark.getConf().getAll())
    logs = [file for file in spark_events.rglob("*") if file.is_file()]
    assert logs
    assert not [file for file in logs if TOKEN.encode() in file.read_bytes()]


def test_too_few_slots_say_how_many_there_are_and_are_needed(
    spark: SparkContext,
) -> None:
    with pytest.raises(RuntimeError, match="needs 9 tasks at the same time, and Spark has 4 slots"):
        horovod.spark.run(print, num_proc=9, start_timeout=3)


def test_a_cancelled_job_leaves_no_process(spark: SparkContext, tmp_path: Path) -> None:
    file = tmp_path / "calls"

    def cancel() -> None:
        lines_of(file, 2)
        spark.cancelAllJobs()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(RuntimeError, match=r"Spark has ended the job: .*cancelled"):
        horovod.spark.run(waiting(file), num_proc=2)
    canceller.join()

    wait_until_ended([int(line) for line in lines_of(file, 2)], TIME_LIMIT)
    assert horovod.spark.run(by_value(lambda: 7), num_proc=4) == [7] * 4  # no executor was lost


def test_mpirun_is_refused(spark: SparkContext) -> None:
    with pytest.raises(ValueError, match="leave use_mpi"):
        horovod.spark.run(print, num_proc=1, use_mpi=True)


# ---- HorovodRunner ------------------------------------------------------------------------------


@by_value
def greet(word: str) -> tuple[int, str]:
    from sparkdl.horovod import log_to_driver

    import horovod.torch as hvd

    hvd.init()
    print(word, flush=True)
    log_to_driver(f"message of {hvd.rank()}\nsecond line")
    return hvd.size(), word


@pytest.mark.parametrize(
    ("np", "verbosity", "shows_all"),
    [
        (-2, "log_callback_only", True),
        (2, "all", True),
        (2, "log_callback_only", False),
    ],
)
def test_horovod_runner_returns_what_rank_0_returned(
    spark: SparkContext,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    np: int,
    verbosity: str,
    shows_all: bool,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SPARKDL), prepend=os.pathsep)
    capfd.readouterr()

    assert HorovodRunner(np=np, driver_log_verbosity=verbosity).run(greet, word="hi") == (2, "hi")

    lines = capfd.readouterr().out.splitlines()
    messages = ["message of 0", "message of 1", "second line", "second line"]
    printed = ["[1,0]<stdout>:hi", "[1,1]<stdout>:hi"] if shows_all else []
    assert sorted(lines) == sorted(messages + printed)


def test_horovod_runner_refuses_more_than_the_cluster_has(spark: SparkContext) -> None:
    with pytest.raises(ValueError, match=r"np=9\): Spark can run 4 tasks"):
        HorovodRunner(np=9).run(print)


def test_horovod_runner_waits_for_the_executors_of_a_new_context(
    tmp_path: Path,
) -> None:
    with zipfile.ZipFile(tmp_path / "words.zip", "w") as archive:
        archive.writestr("word", "archived")
    body = f"""
import pathlib
from horovod.spark import HorovodRunner
context.addArchive({str(tmp_path / "words.zip")!r} + "#words")
def place():
    import os
    return os.environ["HOROVOD_SIZE"], pathlib.Path("words/word").read_text()
print("all slots:", HorovodRunner(np=0).run(place))
"""

    assert "all slots: ('4', 'archived')" in run_driver(body)


def test_the_log_callback_tells_the_driver_of_epochs_and_batches(
    spark: SparkContext,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def train() -> None:
        import numpy as np
        from sparkdl.horovod.tensorflow.keras import LogCallback
        from tensorflow import keras

        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        data = np.ones((4, 2), np.float32)
        callback = LogCallback(per_batch_log=True)
        model.fit(data, data[:, :1], batch_size=2, verbose=0, callbacks=[callback])

    monkeypatch.setenv("PYTHONPATH", str(SPARKDL), prepend=os.pathsep)
    capfd.readouterr()

    HorovodRunner(np=1).run(by_value(train))

    begin, first, second, end = capfd.readouterr().out.splitlines()
    assert begin == "Epoch 0 begin"
    assert re.fullmatch(r"Batch 0 end: loss \d+\.\d{4}", first)
    assert second.startswith("Batch 1 end: loss ")
    assert re.fullmatch(r"Epoch 0 end: loss \d+\.\d{4}, \d+\.\d\d s", end)


def test_horovod_runner_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="'some'"):
        HorovodRunner(np=1, driver_log_verbosity="some")
    with pytest.warns(DeprecationWarning, match="np=0"):
        HorovodRunner(np=0)


# ---- the rank ------------------------------------------------------------------------------------


def test_a_rank_gets_the_gpus_the_folder_and_the_path_of_its_task(
    tmp_path: Path,
) -> None:
    show = tmp_path / "python"
    show.write_text('#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $PYTHONPATH $PWD $*"\nenv\n')
    show.chmod(0o755)
    tasks = [
        {
            "python": str(show),
            "path": ["/a", "/b"],
            "folder": str(tmp_path),
            "gpus": gpus,
        }
        for gpus in ("3", "1,2")
    ]

    shown = subprocess.run(
        [sys.executable, "-m", "horovod.runner.spark_task"],
        env={
            **os.environ,
            TASKS: json.dumps(tasks),
            PYTHON: sys.executable,
            "HOROVOD_LOCAL_RANK": "1",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=TIME_LIMIT,
    ).stdout

    first, _, rest = shown.partition("\n")
    assert first == f"1,2 /a:/b {tmp_path} -m horovod.runner.task"
    assert not re.search(f"^({TASKS}|{PYTHON})=", rest, re.MULTILINE)


# ---- last: it costs executors --------------------------------------------------------


def executor_of(worker: int) -> int:
    """The JVM above it, whose child the daemon of Spark's workers is."""
    one = process(worker)
    while one and not is_executor(one):
        one = process(one.parent)
    assert one, "the worker has no executor above it"
    return one.pid


@pytest.mark.parametrize("has_agent", [True, False], ids=["horovodrun first", "Spark first"])
def test_a_lost_executor_is_one_error_and_nothing_runs_twice(
    spark: SparkContext, tmp_path: Path, has_agent: bool
) -> None:
    file = tmp_path / "calls"

    def kill() -> None:
        with_agent = executor_of(int(lines_of(file, 4)[0]))
        others = [one for one in executors() if one != with_agent]
        os.kill(with_agent if has_agent else others[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(LostTaskError, match="Spark has lost a task of the job"):
        horovod.spark.run(waiting(file), num_proc=4)
    killer.join()

    calls = lines_of(file, 4)
    wait_until_ended([int(line) for line in calls], TIME_LIMIT)
    time.sleep(2)  # a stage that is tried again would have begun
    assert len(lines_of(file, 4)) == 4


# ---- clusters of their own --------------------------------------------------------


def run_driver(body: str, **more: str) -> str:
    """What a program prints whose `context` is a cluster of its own."""
    program = (
        "from pyspark import SparkConf, SparkContext\nimport horovod.spark\n"
        f"settings = {list({**SETTINGS, **more}.items())!r}\n"
        f"context = SparkContext(conf=SparkConf().setAll(settings))\n{body}"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * TIME_LIMIT,
    )
    return ended.stdout


def test_dynamic_allocation_is_refused_by_name() -> None:
    more = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    }

    printed = run_driver("horovod.spark.run(print, num_proc=2)", **more)

    assert "set spark.dynamicAllocation.enabled=false" in printed


def test_gpus_of_tasks_and_a_context_that_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "gpus.sh"
    script.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["5"]}'\n""")
    script.chmod(0o755)
    file = tmp_path / "calls"
    body = f"""
import os, pathlib, threading, time
file = pathlib.Path({str(file)!r})
def gpu():
    return os.environ.get("CUDA_VISIBLE_DEVICES")
print("gpus", horovod.spark.run(gpu, num_proc=2))
def stop():
    while not file.exists() or len(file.read_text().splitlines()) < 2:
        time.sleep(0.05)
    context.stop()
def wait():
    with open({str(file)!r}, "a") as out:
        out.write(str(os.getpid()) + "\\n")
    time.sleep(600)
threading.Thread(target=stop).start()
try:
    horovod.spark.run(wait, num_proc=2)
except RuntimeError as error:
    print("error:", error)
"""
    more = {
        "spark.worker.resource.gpu.amount": "1",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": "1",
        "spark.task.resource.gpu.amount": "1",
    }

    printed = run_driver(body, **more)

    assert "gpus ['5', '5']" in printed
    assert "error: horovod.spark.run: Spark has ended the job" in printed
    wait_until_ended([int(line) for line in lines_of(file, 2)], TIME_LIMIT)


def test_without_pyspark_the_package_is_named() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import horovod
try:
    import horovod.spark
except ImportError as error:
    print(error)
"""
    printed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    ).stdout
    assert printed == "horovod.spark needs pyspark: pip install horovod[spark]\n"
