# SPDX-License-Identifier: Apache-2.0
"""Names for operations that have none: equal on ranks that make the same calls in one order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

# A multiple of every number up to 10: a training loop of so many calls meets the same names with
# the same shapes, and so the library's cache.
_PERIOD = 2520


class UnnamedOperations:
    """Numbers the unnamed operations of each kind in each process set.

    A name depends on nothing but the number of calls before it, and comes round after `period`
    calls. A caller that still has an operation of that name in flight holds the next one back
    (`held_back`). Thread: any.
    """

    def __init__(self, period: int = _PERIOD) -> None:
        self.period = period
        self._counters: dict[tuple[str, int], Iterator[int]] = defaultdict(itertools.count)

    def next_name(self, kind: str, process_set: int) -> str:
        return f"{kind}.noname.{next(self._counters[kind, process_set]) % self.period}"

    def step_back(self, kind: str, process_set: int) -> None:
        """The last call was refused on this rank alone: the next call gets its number."""
        number = next(self._counters[kind, process_set])
        self._counters[kind, process_set] = itertools.count(number - 1)

    def restart(self) -> None:
        """All ranks start again: in a new world, and when all have joined."""
        self._counters.clear()

    def forget(self, process_set: int) -> None:
        """The id is free, and may become that of a set with other ranks."""
        for key in [one for one in self._counters if one[1] == process_set]:
            del self._counters[key]


unnamed = UnnamedOperations()
