# SPDX-License-Identifier: Apache-2.0
"""Jobs that are disturbed and must go on: intruders at their sockets, ranks that are stopped."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import below

LISTENS_TCP = "0A"
LISTENS_UNIX = 1 << 16  # the flag of a Unix socket in /proc/net/unix

# Calls of some seconds; every result is checked.
BENCH = ("hvd-bench", "-b", 4, "-e", "64K", "-f", 128, "-n", 4000, "--mode", "loop")


def sockets_of(pids: set[int]) -> set[str]:
    """The inodes of what the processes have open."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{name}")
                    if target.startswith("socket:["):
                        inodes.add(target[len("socket:[") : -1])
    return inodes


Address = tuple[int, str | tuple[str, int]]


def ip_of(digits: str, family: socket.AddressFamily) -> str:
    """An address as /proc/net has it: words of four bytes in the order of this machine."""
    words = [digits[at : at + 8] for at in range(0, len(digits), 8)]
    return socket.inet_ntop(family, b"".join(bytes.fromhex(word)[::-1] for word in words))


def addresses_of(pids: set[int]) -> set[Address]:
    """Where the processes listen: families with addresses."""
    inodes = sockets_of(pids)
    addresses: set[Address] = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            row = line.split()
            if row[3] == LISTENS_TCP and row[9] in inodes:
                host, port = row[1].split(":")
                addresses.add((family, (ip_of(host, family), int(port, 16))))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        row = line.split()
        if len(row) == 8 and int(row[3], 16) & LISTENS_UNIX and row[6] in inodes:
            name = row[7]
            addresses.add((socket.AF_UNIX, "\0" + name[1:] if name.startswith("@") else name))
    return addresses


class Intruder:
    """Connects to whatever listens, says something at random, and keeps some connections open."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.reached: dict[Address, int] = {}
        self._dice = random.Random(7)
        self._kept: list[socket.socket] = []

    def talk_to(self, address: Address) -> None:
        family, where = address
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            speaker = socket.socket(family, kind)
            speaker.settimeout(0.2)
            with contextlib.suppress(OSError):
                speaker.connect(where)
                self.reached[address] = self.reached.get(address, 0) + 1
                speaker.sendall(self._dice.randbytes(self._dice.choice((1, 20, 4000, 60_000))))
                if len(self._kept) < 20:
                    self._kept.append(speaker)
                    return
            speaker.close()
            if family != socket.AF_UNIX:
                return

    def disturb_until(self, over: threading.Event) -> None:
        while not over.is_set():
            for address in addresses_of({self.pid, *(one.pid for one in below(self.pid))}):
                self.talk_to(address)
            time.sleep(0.02)
        for speaker in self._kept:
            speaker.close()


@contextlib.contextmanager
def disturbed(pid: int) -> Iterator[Intruder]:
    intruder = Intruder(pid)
    over = threading.Event()
    thread = threading.Thread(target=intruder.disturb_until, args=[over])
    thread.start()
    try:
        yield intruder
    finally:
        over.set()
        thread.join()


def results(lines: list[str]) -> list[str]:
    """The lines of hvd-bench that have numbers."""
    rows = [line.split(":", 1)[1].split() for line in lines]
    return [row for row in rows if row and row[0].isdigit()]


@pytest.mark.parametrize("transport", ["", "tcp"])
def test_garbage_at_every_socket_changes_nothing(launcher, transport):
    # Ranks listen for connections until the last one is there.
    late = ("sh", "-c", f"[ $HOROVOD_RANK != 2 ] || sleep 1; exec {' '.join(map(str, BENCH))}")
    with (
        launcher.start("-np", 3, *late, env={"HOROVOD_CPU_OPERATIONS": transport}) as running,
        disturbed(running.process.pid) as intruder,
    ):
        job = running.end()

    assert job.code == 0, job
    assert [row[-1] for row in results(job.lines)] == ["0"] * 3, job
    families = {family for family, _ in intruder.reached}
    assert socket.AF_UNIX in families, intruder.reached
    assert transport == "" or families & {socket.AF_INET, socket.AF_INET6}, intruder.reached


@pytest.mark.parametrize("transport", ["", "tcp"])
def test_a_rank_that_is_stopped_for_longer_than_the_lease_fails_nothing(launcher, transport):
    with launcher.start(
        *("-np", 3, "--lease", 2, *BENCH), env={"HOROVOD_CPU_OPERATIONS": transport}
    ) as running:
        running.wait_for(b" loop ")
        ranks = [one.pid for one in below(running.process.pid) if one.name == "hvd-bench"]
        assert len(ranks) == 3, ranks
        os.kill(ranks[1], signal.SIGSTOP)
        time.sleep(6)
        assert running.process.poll() is None
        os.kill(ranks[1], signal.SIGCONT)
        job = running.end()

    assert job.code == 0, job
    assert [row[-1] for row in results(job.lines)] == ["0"] * 3, job
