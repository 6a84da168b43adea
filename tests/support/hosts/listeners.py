# SPDX-License-Identifier: Apache-2.0
"""At which ports the processes of simulated hosts listen."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from .host import Host


def listening(host: Host) -> set[int]:
    """The ports at which anybody of the host listens, as its kernel has them."""
    ports = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            with open(f"/proc/{host.pid}/net/{table}") as lines:
                rows = [line.split() for line in list(lines)[1:]]
            ports |= {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"}
    return ports


@contextlib.contextmanager
def watched(hosts: list[Host]) -> Iterator[set[int]]:
    """Gives the ports that were listened at meanwhile, but for those of before."""
    before = set().union(*(listening(host) for host in hosts))
    seen: set[int] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            for host in hosts:
                seen.update(listening(host) - before)
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
