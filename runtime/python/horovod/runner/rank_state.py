# SPDX-License-Identifier: Apache-2.0
"""What a rank tells the caller of horovod.run while its function runs, for a table of the ranks."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RankState:
    """A moment of a rank, of its process and of all processes below it. None: not measured yet, or
    psutil is not installed there."""

    rank: int
    host: str
    seconds: float  # since the function began
    cpus: float | None = None  # in use since the last state, 1.0 for one of them
    memory: int | None = None  # resident bytes
    gpus: str = ""  # those in use, with load and memory; empty without nvidia-ml-py


@contextmanager
def reporting(
    send: Callable[[RankState], None], interval: float, environment: Mapping[str, str]
) -> Iterator[None]:
    """Sends the state of this process now, and every `interval` seconds, from a thread of its own,
    what it measures; 0: never. An error of `send` ends that. Nothing is sent any more once the
    block has been left."""
    rank = int(environment.get("HOROVOD_RANK", 0))
    host = environment.get("HOROVOD_HOSTNAME") or platform.node()
    ended = threading.Event()
    lock = threading.Lock()  # for `send`

    def report() -> None:
        meter = _Meter(rank, host)
        while not ended.wait(interval):
            state = meter.measure()
            with lock:
                if ended.is_set():
                    return
                try:
                    send(state)
                except Exception:  # the agent has gone: the job ends
                    return

    if interval > 0:
        send(RankState(rank, host, 0.0))
        threading.Thread(target=report, name="horovod rank state", daemon=True).start()
    try:
        yield
    finally:
        with lock:
            ended.set()


class _Meter:
    def __init__(self, rank: int, host: str) -> None:
        self._rank = rank
        self._host = host
        self._begun = self._last = time.monotonic()
        self._last_cpu = self._measure_processes()[1]

    def measure(self) -> RankState:
        now = time.monotonic()
        processes, cpu, memory = self._measure_processes()
        cpus = None
        if cpu is not None and self._last_cpu is not None and now > self._last:
            cpus = max(0.0, cpu - self._last_cpu) / (now - self._last)
        self._last, self._last_cpu = now, cpu
        return RankState(
            self._rank, self._host, now - self._begun, cpus, memory, _gpus_of(processes)
        )

    @staticmethod
    def _measure_processes() -> tuple[set[int], float | None, int | None]:
        """The processes, their CPU time in seconds so far, and their resident bytes."""
        try:
            import psutil
        except ImportError:
            return {os.getpid()}, None, None
        own = psutil.Process()
        numbers, cpu, memory = set(), 0.0, 0
        for process in [own, *own.children(recursive=True)]:
            try:
                times, resident = process.cpu_times(), process.memory_info().rss
            except psutil.Error:  # it has ended meanwhile
                continue
            numbers.add(process.pid)
            # A process that ends hands its time over to the children_* of its parent.
            cpu += times.user + times.system + times.children_user + times.children_system
            memory += resident
        return numbers, cpu, memory


def _load_of(device: Any) -> str:
    """As "97 %, ", or empty: NVML does not tell the load of a GPU in MIG mode."""
    import pynvml as nvml

    try:
        return f"{nvml.nvmlDeviceGetUtilizationRates(device).gpu} %, "
    except nvml.NVMLError:
        return ""


def _gpus_of(processes: set[int]) -> str:
    """As "0: 97 %, 12.3 GiB" for each GPU on which one of them runs, by NVML."""
    try:
        import pynvml as nvml
    except ImportError:
        return ""
    texts = []
    try:
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            device = nvml.nvmlDeviceGetHandleByIndex(index)
            running = nvml.nvmlDeviceGetComputeRunningProcesses(device)
            used = [one.usedGpuMemory or 0 for one in running if one.pid in processes]
            if used:
                texts.append(f"{index}: {_load_of(device)}{sum(used) / 2**30:.1f} GiB")
    except nvml.NVMLError:  # no driver, or one that does not tell this
        pass
    return "; ".join(texts)
