# SPDX-License-Identifier: Apache-2.0
"""Jobs of a notebook: horovod.run and horovodrun in the cells of a real Jupyter kernel."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipykernel", reason="ipykernel is not installed")

import nbclient
import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from support.processes import wait_until_ended

TIME_LIMIT = 100  # seconds

WAIT = """
import horovod

def wait():
    import os, time
    print("rank", os.getpid(), "agent", os.getppid(), flush=True)
    time.sleep(600)

horovod.run(wait, num_proc=2)
"""


class Kernel:
    """A kernel and a client of it, as a notebook is."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(cwd=str(folder), env=environment())
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIME_LIMIT)

    def run(self, code: str, on_text: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
        """Runs a cell and gives its reply; `on_text` gets its whole output each time there is
        more."""
        request = self.client.execute(code)
        text, table = "", ""
        while True:
            message = self.client.get_iopub_msg(timeout=TIME_LIMIT)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                text += content["text"]
                on_text(text)
            elif message["msg_type"] == "execute_result":
                text += content["data"]["text/plain"]
                on_text(text)
            elif message["msg_type"] in {"display_data", "update_display_data"}:
                table = content["data"]["text/html"]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return {**self._reply_to(request), "text": text, "table": table}

    def _reply_to(self, request: str) -> dict[str, Any]:
        # A kernel that was slow to start has been asked several times whether it is ready.
        while True:
            message = self.client.get_shell_msg(timeout=TIME_LIMIT)
            if message["parent_header"].get("msg_id") == request:
                content: dict[str, Any] = message["content"]
                return content

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def environment() -> dict[str, str]:
    """With the programs of this Python in PATH, as an activated environment has them."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    started = Kernel(tmp_path)
    yield started
    started.stop()


def processes_in(text: str) -> list[int]:
    """The numbers of ranks and agents that have told theirs."""
    words = text.split()
    return [
        int(words[at + 1]) for at, word in enumerate(words[:-1]) if word.endswith(("rank", "agent"))
    ]


def test_output_appears_while_the_cell_runs(kernel: Kernel, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    code = f"""
import horovod

offset = 5

def wait_until_seen():
    import os, time
    print("begun", flush=True)
    while not os.path.exists({str(seen)!r}):
        time.sleep(0.01)
    return int(os.environ["HOROVOD_RANK"]) + offset

horovod.run(wait_until_seen, num_proc=2)
"""

    def on_text(text: str) -> None:
        if text.count("begun") == 2:
            seen.touch()

    reply = kernel.run(code, on_text)

    assert reply["status"] == "ok", reply
    assert "[0]<stdout>:begun" in reply["text"]
    assert reply["text"].endswith("[5, 6]")
    assert reply["table"].count("<td>done</td>") == 2


def test_interrupting_the_cell_stops_the_job_and_leaves_the_kernel(kernel: Kernel) -> None:
    processes: list[int] = []

    def on_text(text: str) -> None:
        if not processes and len(processes_in(text)) == 4:
            processes.extend(processes_in(text))
            kernel.manager.interrupt_kernel()

    reply = kernel.run(WAIT, on_text)

    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert reply["table"].count("<td>stopped</td>") == 2
    wait_until_ended(processes, TIME_LIMIT)
    again = kernel.run("horovod.run(lambda: 'again', num_proc=2)")
    assert again["text"].endswith("['again', 'again']"), again


def test_killing_the_kernel_leaves_nothing(kernel: Kernel) -> None:
    request = kernel.client.execute(WAIT)
    text = ""
    while len(processes_in(text)) < 4:
        message = kernel.client.get_iopub_msg(timeout=TIME_LIMIT)
        if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
            text += message["content"]["text"]

    kernel.manager.signal_kernel(signal.SIGKILL)

    wait_until_ended(processes_in(text), TIME_LIMIT)


def test_the_exception_of_a_rank_is_that_of_the_cell(kernel: Kernel) -> None:
    reply = kernel.run(
        """
import horovod

def fail():
    raise ValueError("no data")

horovod.run(fail, num_proc=2)
"""
    )

    assert (reply["status"], reply["ename"]) == ("error", "HorovodRankError")
    assert "ValueError: no data" in reply["evalue"]
    assert "<td>ValueError: no data</td>" in reply["table"]
    assert "in fail" in "".join(reply["traceback"])


def test_the_example_runs_from_its_first_cell_to_its_last(root: Path) -> None:
    notebook = nbformat.read(root / "examples/notebook.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=TIME_LIMIT, resources={"metadata": {"path": str(root / "examples")}}
    )

    client.execute(env=environment())

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    printed = ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]
    trained = printed[2]
    assert "Epoch 3/3: loss" in trained
    accuracies = [
        float(line.rpartition(" ")[2]) for line in trained.splitlines() if "accuracy" in line
    ]
    assert len(accuracies) == 2
    assert accuracies[0] == accuracies[1] > 0.8
    alone, gpus, one_rank, two_ranks, without_gpus = (
        next(
            text
            for cell, text in zip(cells, printed, strict=True)
            if cell.source.startswith(beginning)
        )
        for beginning in (
            "!python $script",
            "!nvidia-smi",
            "!horovodrun -np 1",
            "!horovodrun -np $ranks",
            "!CUDA_VISIBLE_DEVICES=",
        )
    )
    assert "24/24 - " in alone and "24/24 - " in without_gpus
    assert "GPU" in gpus
    assert "[0]<stdout>:24/24 - " in one_rank
    assert "[0]<stdout>:12/12 - " in two_ranks and "[1]<stdout>:" not in two_ranks
    assert "rank 1" in printed[-1]
    assert "ValueError: no data" in printed[-1]
