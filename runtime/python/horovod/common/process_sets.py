# SPDX-License-Identifier: Apache-2.0
"""Process sets: the ranks that take part in an operation. So far only that of all ranks exists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horovod.common.basics import HorovodBasics

_NOT_YET = "process sets other than the global one are not supported yet"


class ProcessSet:
    """A set of ranks. `process_set_id` and the answers are None while it belongs to no world."""

    def __init__(self, ranks_or_comm: Sequence[int] | object) -> None:
        if not isinstance(ranks_or_comm, Iterable):
            raise NotImplementedError(
                f"ProcessSet needs a sequence of ranks; MPI communicators such as "
                f"{ranks_or_comm!r} are not supported yet"
            )
        self.process_set_id: int | None = None
        self.ranks: list[int] | None = sorted(ranks_or_comm)
        self.mpi_comm: object | None = None

    def _world(self) -> HorovodBasics | None:
        from horovod.common.basics import basics

        return basics if self.process_set_id is not None and basics.is_initialized() else None

    def size(self) -> int | None:
        world = self._world()
        return world.size() if world else None

    def rank(self) -> int | None:
        world = self._world()
        return world.rank() if world else None

    def included(self) -> bool | None:
        return True if self._world() else None

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )

    def __repr__(self) -> str:
        return str(self)


class _GlobalProcessSet(ProcessSet):
    """All ranks; its id is always 0, and its ranks are known after init."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0
        self.ranks = None


global_process_set = _GlobalProcessSet()


def process_set_id(process_set: ProcessSet) -> int:
    """The id to submit with."""
    if process_set is not global_process_set:
        raise NotImplementedError(f"{process_set}: {_NOT_YET}")
    return 0


def check_requested(process_sets: Sequence[ProcessSet] | str | None) -> None:
    """What init(process_sets=...) was given: nothing that would be needed is left out silently."""
    if isinstance(process_sets, str) and process_sets.lower() != "dynamic":
        raise ValueError(
            f"process_sets is '{process_sets}': use a list of ProcessSet, or 'dynamic'"
        )
    if process_sets is None or isinstance(process_sets, str):
        return
    wanted = [one.ranks for one in process_sets if one is not global_process_set]
    for place, ranks in enumerate(wanted):
        if ranks in wanted[:place] or ranks == global_process_set.ranks:
            raise ValueError(f"process_sets: a set with the ranks {ranks} exists already")
    if wanted:
        raise NotImplementedError(f"init(process_sets={wanted}): {_NOT_YET}")


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Makes a new set, on all ranks together."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set is global_process_set or process_set.ranks == global_process_set.ranks:
        raise ValueError(f"a process set with the ranks {process_set.ranks} exists already")
    raise NotImplementedError(f"add_process_set({process_set.ranks}): {_NOT_YET}")


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set, on all ranks together. False where there is nothing to remove."""
    if process_set.process_set_id is None:
        return False
    raise ValueError("the global process set cannot be removed")


def is_process_set_included(process_set: ProcessSet = global_process_set) -> bool:
    return bool(process_set.included())
