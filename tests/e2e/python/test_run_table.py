# SPDX-License-Identifier: Apache-2.0
"""What ranks tell of themselves while their function runs, and the table that a notebook shows."""

from __future__ import annotations

import os
import queue
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from horovod.runner import messages, rank_table
from horovod.runner.errors import RankFailure
from horovod.runner.job import Ended, Event, Result, start_job
from horovod.runner.rank_state import RankState, reporting
from horovod.runner.rank_table import RankTable


def test_ranks_tell_their_state_while_they_run(horovodrun: Path) -> None:
    def work() -> int:
        import subprocess
        import sys
        import time

        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
        return len(bytearray(32 << 20))

    work.__module__ = "__main__"
    call = messages.encode_call(work, state_seconds=1)
    with start_job([str(horovodrun), "-np", "2"], call) as job:
        events = list(job.events())

    for rank in range(2):
        states = [e for e in events if isinstance(e, RankState) and e.rank == rank]
        assert len(states) >= 2, events
        assert [state.host for state in states] == ["localhost"] * len(states)
        assert all(state.memory and state.memory > 1 << 20 for state in states[1:])
        assert 0.1 < states[-1].cpus < 8
        assert states[0].seconds < states[-1].seconds
        assert Result(rank, 32 << 20) in events
    assert events[-1] == Ended(0)


def test_a_call_that_does_not_ask_gets_no_states(horovodrun: Path) -> None:
    with start_job([str(horovodrun), "-np", "1"], messages.encode_call(os.getpid)) as job:
        assert not [event for event in job.events() if isinstance(event, RankState)]


@pytest.mark.parametrize("is_mig, shown", [(False, "1: 91 %, 3.0 GiB"), (True, "1: 3.0 GiB")])
def test_gpus_are_those_on_which_the_rank_runs(
    monkeypatch: pytest.MonkeyPatch, is_mig: bool, shown: str
) -> None:
    def rates(device: int) -> types.SimpleNamespace:
        if is_mig:
            raise RuntimeError("Not Supported")
        return types.SimpleNamespace(gpu=90 + device)

    nvml = types.ModuleType("pynvml")
    own = types.SimpleNamespace(pid=os.getpid(), usedGpuMemory=3 << 30)
    other = types.SimpleNamespace(pid=1, usedGpuMemory=None)
    functions: dict[str, Callable[..., Any]] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 3,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetComputeRunningProcesses": [[other], [other, own], []].__getitem__,
        "nvmlDeviceGetUtilizationRates": rates,
        "NVMLError": RuntimeError,
    }
    for name, function in functions.items():
        setattr(nvml, name, function)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)

    assert second_state().gpus == shown


def second_state() -> RankState:
    """The first that is measured."""
    states: queue.SimpleQueue[RankState] = queue.SimpleQueue()
    with reporting(states.put, 0.01, {"HOROVOD_RANK": "3"}):
        assert states.get(timeout=30).seconds == 0
        return states.get(timeout=30)


def test_without_psutil_cpus_and_memory_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)

    state = second_state()

    assert (state.rank, state.cpus, state.memory) == (3, None, None)


class Display:
    """Stands for IPython's: keeps what is shown last."""

    def __init__(self) -> None:
        self.content: dict[str, str] = {}

    def __call__(self, content: dict[str, str], *, raw: bool, display_id: bool) -> Display:
        assert raw and display_id and not self.content
        self.content = content
        return self

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.content = content


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[Display]:
    module = types.ModuleType("IPython.display")
    module.display = shown = Display()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    yield shown


def test_the_table_says_what_would_measure_cpus_and_memory(display: Display) -> None:
    RankTable().add(RankState(1, "b", 2.0))

    advice = "CPUs and memory are measured by psutil: pip install horovod[notebook]"
    assert display.content["text/plain"].splitlines()[-1] == advice
    assert display.content["text/html"].endswith(f"<p>{advice}</p>")


def test_the_table_follows_the_ranks(display: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_table, "_REDRAW_SECONDS", 0)
    table = RankTable()

    def shown_after(event: Event) -> list[list[str]]:
        table.add(event)
        return [line.split("  ") for line in display.content.get("text/plain", "").splitlines()]

    assert shown_after(Ended(0)) == []
    shown_after(RankState(1, "b", 0.0))
    assert "psutil" not in display.content["text/plain"], "nothing has been measured yet"
    shown_after(RankState(0, "a<b>", 61.7, cpus=1.26, memory=3 << 30, gpus="0: 5 %, 1.0 GiB"))
    lines = display.content["text/plain"].splitlines()
    assert lines[0].split() == ["rank", "host", "state", "CPUs", "GPU", "memory", "seconds"]
    assert lines[1].split()[:3] == ["0", "a<b>", "running"]
    assert "1.3" in lines[1] and "0: 5 %, 1.0 GiB" in lines[1] and "3,072 MiB" in lines[1]
    assert lines[2].split() == ["1", "b", "running", "-", "-", "-", "0"]
    assert "<td>a&lt;b&gt;</td>" in display.content["text/html"]

    shown_after(Result(0, "x"))
    assert "done" in display.content["text/plain"]
    table.close()
    assert "stopped" in display.content["text/plain"]

    shown_after(RankFailure(1, "b", "ValueError: no data", ""))
    assert "ValueError: no data" in display.content["text/plain"]


def test_there_is_no_table_outside_of_a_notebook() -> None:
    assert rank_table.notebook_table() is None
