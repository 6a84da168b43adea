# SPDX-License-Identifier: Apache-2.0
"""What a launcher tells its ranks about their places: a command that prints it, and what it is."""

from __future__ import annotations

import re

_NAMES = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")

Contract = tuple[int, ...]  # the values in the order of _NAMES


def telling(more: str = "") -> str:
    """For a shell: prints the rank's contract and `more` in one write."""
    return "echo contract " + " ".join(f"$HOROVOD_{name}" for name in _NAMES) + f" {more} end"


def told_with_more(text: str) -> list[tuple[Contract, str]]:
    """What all ranks have printed, the lowest first."""
    rows = re.findall(r"contract ((?:\d+ ){6}) ?(.*?) ?end", text)
    return sorted((tuple(map(int, numbers.split())), more) for numbers, more in rows)


def told(text: str) -> list[Contract]:
    return [contract for contract, _ in told_with_more(text)]


def of_hosts(*slots: int) -> list[Contract]:
    """Of the ranks that fill hosts with so many slots."""
    ranks = []
    for index, count in enumerate(slots):
        for local in range(count):
            hosts = [host for host, other in enumerate(slots) if other > local]
            place = (local, count, hosts.index(index), len(hosts))
            ranks.append((len(ranks), sum(slots), *place))
    return ranks
