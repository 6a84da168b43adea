# SPDX-License-Identifier: Apache-2.0
"""Names of operations: those for operations that have none, and those that a program repeats."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

# A multiple of every number up to 10: a training loop of so many calls meets the same names with
# the same shapes, and so the library's cache.
_PERIOD = 2520


class UnnamedOperations:
    """Numbers the unnamed operations of each kind in each process set: equally on ranks that make
    the same calls in one order.

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


class NamesInUse:
    """Names of operations that were started, and since when this rank has waited for nothing.

    The library refuses the name of an operation that has not ended, and one may end within
    microseconds: of two calls in a row, a rank that comes last would have the second taken, and the
    other ranks would not. So until a rank waits, every repetition is refused. From then on the
    library's word counts alone, because a program may repeat a name without ever asking for the
    result. Thread: any.
    """

    def __init__(self) -> None:
        self._names: set[tuple[int, str]] = set()  # with their process sets

    def check(self, names: Sequence[tuple[int, str]]) -> None:
        """Raises ValueError for a name that is in use."""
        if not self._names.isdisjoint(names):
            name = next(name for name in names if name in self._names)[1]
            raise ValueError(f"'{name}' is already pending: wait for it, or use another name")

    def add(self, names: Sequence[tuple[int, str]]) -> None:
        self._names.update(names)

    def remove(self, names: Sequence[tuple[int, str]]) -> None:
        """They have ended, and the program knows."""
        self._names.difference_update(names)

    def clear(self) -> None:
        """This rank has waited, or left its world."""
        self._names.clear()


names_in_use = NamesInUse()
