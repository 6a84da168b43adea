# SPDX-License-Identifier: Apache-2.0
"""Process sets: the ranks that take part in an operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ctypes import byref, c_int32, c_size_t, sizeof
from typing import TYPE_CHECKING, Any

from horovod.common import library as abi
from horovod.common import mpi, operations
from horovod.common.library import library
from horovod.common.names import unnamed

if TYPE_CHECKING:
    from horovod.common.basics import HorovodBasics

__all__ = [
    "ProcessSet",
    "add_process_set",
    "global_process_set",
    "is_process_set_included",
    "remove_process_set",
]

_MEMBERS_BYTES = sizeof(abi.ProcessSet)


class ProcessSet:
    """A set of ranks of the world, given as a list or as a communicator of mpi4py.

    It belongs to a world from init(process_sets=[...]) or add_process_set on, until shutdown or
    remove_process_set. Outside of one its id and all answers are None.
    """

    def __init__(self, ranks_or_comm: Sequence[int] | Any) -> None:
        self.process_set_id: int | None = None
        self.ranks: list[int] | None = None
        self.mpi_comm: Any | None = None
        if mpi.is_communicator(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
            return
        ranks = list(ranks_or_comm) if isinstance(ranks_or_comm, Iterable) else [None]
        if not all(_is_integer(rank) for rank in ranks):
            raise ValueError(
                f"ProcessSet({ranks_or_comm!r}): use a list of ranks, or a communicator of mpi4py"
            )
        self.ranks = sorted(int(rank) for rank in ranks)

    def _world(self) -> HorovodBasics | None:
        from horovod.common.basics import basics

        return basics if self.process_set_id is not None and basics.is_initialized() else None

    def size(self) -> int | None:
        """How many ranks it has."""
        return len(self.ranks or ()) if self._world() else None

    def rank(self) -> int | None:
        """This rank's place in it. Raises ValueError where it is no member."""
        world = self._world()
        if world is None:
            return None
        ranks = self.ranks or []
        if world.rank() not in ranks:
            raise ValueError(f"rank {world.rank()} is not in {self}")
        return ranks.index(world.rank())

    def included(self) -> bool | None:
        """Whether this rank is a member."""
        world = self._world()
        return None if world is None else world.rank() in (self.ranks or ())

    def __str__(self) -> str:
        return (
            f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, "
            f"mpi_comm={self.mpi_comm})"
        )

    def __repr__(self) -> str:
        return str(self)


def _is_integer(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


class _GlobalProcessSet(ProcessSet):
    """All ranks; its id is always 0, and its ranks are known after init."""

    def __init__(self) -> None:
        super().__init__([])
        self.process_set_id = 0
        self.ranks = None


global_process_set = _GlobalProcessSet()

_known: dict[int, list[ProcessSet]] = {}  # of this world, by id


def process_set_id(process_set: ProcessSet) -> int:
    """The id to submit with. Raises ValueError for a set that belongs to no world."""
    number = process_set.process_set_id
    if number is None or (number != 0 and number not in _known):
        raise ValueError(
            f"{process_set} belongs to no world: pass it to hvd.init(process_sets=[...]) or to "
            f"hvd.add_process_set()"
        )
    return number


class Requested:
    """The argument `process_sets` of init, checked as far as one rank can without a world."""

    def __init__(self, process_sets: Sequence[ProcessSet] | str | None) -> None:
        self.is_dynamic = False
        self.sets: list[ProcessSet] = []
        if isinstance(process_sets, str):
            self.is_dynamic = process_sets.lower() == "dynamic"
            if not self.is_dynamic:
                raise ValueError(
                    f"process_sets is '{process_sets}': use a list of ProcessSet, or 'dynamic'"
                )
        elif process_sets is not None:
            self.sets = [_checked(one) for one in process_sets if one is not global_process_set]
        self.fails_somewhere = False  # on some rank: sets that are the same
        self.has_communicators = any(one.mpi_comm is not None for one in self.sets)
        self._lists = [one.ranks or [] for one in self.sets]  # where none is a communicator
        if not self.has_communicators:
            _check_different(self._lists)

    def fill(self, options: abi.InitOptions, world_comm: Any | None) -> None:
        """Tells hvd_init. The memory lives as long as `options`. All ranks of the world call it."""
        options.dynamic_process_sets = int(self.is_dynamic)
        if self.has_communicators:
            self._lists = self._gather(world_comm)
        if self._lists:
            options.process_sets = (abi.ProcessSet * len(self._lists))(*map(_members, self._lists))
            options.process_set_count = len(self._lists)

    def _gather(self, world_comm: Any | None) -> list[list[int]]:
        """The ranks of all sets, each once. One communicator is a set of other ranks on each side
        of a split, and unknown to a process that is no member."""
        own = [_ranks_here(one, world_comm) for one in self.sets]
        everywhere = mpi.allgather(own, world_comm)
        lists: dict[tuple[int, ...], None] = {}
        for place in range(len(own)):
            lists.update({tuple(theirs[place]): None for theirs in everywhere})
        everybody = list(range(len(everywhere)))
        self.fails_somewhere = any(
            ranks == everybody or ranks in theirs[:place]
            for theirs in everywhere
            for place, ranks in enumerate(theirs)
            if ranks
        )
        return [list(ranks) for ranks in lists if ranks and list(ranks) != everybody]

    def exist_on_all(self, world_comm: Any | None) -> bool:
        """Whether the world has them. All ranks of the world call it."""
        known = {tuple(ranks) for ranks in ids_and_ranks().values()}
        own = [tuple(_ranks_here(one, world_comm)) for one in self.sets]
        return all(mpi.allgather(all(not one or one in known for one in own), world_comm))

    def bind(self, world_comm: Any | None) -> None:
        """Gives the sets their ids in the world that there is now."""
        by_ranks = {tuple(ranks): number for number, ranks in ids_and_ranks().items()}
        _check_different([_ranks_here(one, world_comm) for one in self.sets])
        for one in self.sets:
            ranks = _ranks_here(one, world_comm)
            if not ranks and one.mpi_comm is not None:
                continue  # this process is no member, and does not know who is
            number = by_ranks.get(tuple(ranks))
            if number is None:
                raise ValueError(
                    f"there is no process set of the ranks {ranks}: a world gets its sets from the "
                    f"first hvd.init(process_sets=[...]), or from hvd.add_process_set()"
                )
            if number == 0:
                raise _exists(ranks)
            _bind(one, number, ranks)


def _checked(process_set: ProcessSet) -> ProcessSet:
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_sets has {process_set!r}: use hvd.ProcessSet({process_set!r})")
    return process_set


def _exists(ranks: list[int] | None) -> ValueError:
    return ValueError(f"a process set with the ranks {ranks} exists already")


def _check_different(lists: list[list[int]]) -> None:
    for place, ranks in enumerate(lists):
        if ranks and ranks in lists[:place]:
            raise _exists(ranks)


def _ranks_here(process_set: ProcessSet, world_comm: Any | None) -> list[int]:
    """Its ranks as this process knows them; none of a communicator that it is not in."""
    if process_set.mpi_comm is not None:
        return mpi.ranks_in(process_set.mpi_comm, world_comm)
    return process_set.ranks or []


def _members(ranks: list[int]) -> abi.ProcessSet:
    count = len(ranks)
    return abi.ProcessSet(struct_size=_MEMBERS_BYTES, ranks=(c_int32 * count)(*ranks), count=count)


def _bind(process_set: ProcessSet, number: int, ranks: list[int]) -> None:
    process_set.process_set_id, process_set.ranks = number, list(ranks)
    _known.setdefault(number, []).append(process_set)


def _unbind(number: int) -> None:
    for one in _known.pop(number, ()):
        one.process_set_id = None
    unnamed.forget(number)


def unbind_all() -> None:
    """The world has ended."""
    for number in list(_known):
        _unbind(number)


def _read_numbers(ask: Callable[[Any, int, Any], int]) -> list[int]:
    """What a function of the library that stores numbers and their count has to say."""
    count = c_size_t()
    operations.check(ask(None, 0, byref(count)))
    numbers = (c_int32 * count.value)()
    operations.check(ask(numbers, count.value, byref(count)))
    return numbers[: count.value]


def ranks_of(number: int) -> list[int]:
    """The members of a set by its id. Raises ValueError where there is none."""
    world = operations.context()
    return _read_numbers(lambda *place: library.hvd_process_set_ranks(world, number, *place))


def ids_and_ranks() -> dict[int, list[int]]:
    """All process sets of this world."""
    world = operations.context()
    numbers = _read_numbers(lambda *place: library.hvd_process_set_ids(world, *place))
    return {number: ranks_of(number) for number in numbers}


def _wait_for_all(call: Callable[[], int]) -> int:
    """Repeats a call that blocks, so that signal handlers run meanwhile."""
    status = call()
    while status == operations.IN_PROGRESS:
        operations.submit_held_back()
        status = call()
    if status == operations.UNSUPPORTED:
        raise ValueError(
            f"{library.last_error()}: process sets are added and removed only after "
            f"hvd.init(process_sets='dynamic'), or with HOROVOD_DYNAMIC_PROCESS_SETS=1"
        )
    return status


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Makes a new set. All ranks call it, with the same members. Raises ValueError where a set of
    these ranks exists, or where sets are not dynamic."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    world = operations.context()
    if process_set.process_set_id is not None:
        raise _exists(process_set.ranks)
    ranks = process_set.ranks
    if ranks is None:
        from horovod.common.basics import basics

        ranks = mpi.ranks_in(process_set.mpi_comm, basics.mpi_world)
    members = _members(ranks)
    number = c_int32(-1)
    operations.check(
        _wait_for_all(
            lambda: library.hvd_process_set_add(
                world, byref(members), operations.SIGNAL_CHECK_MS, byref(number)
            )
        )
    )
    _bind(process_set, number.value, ranks)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set. All ranks call it. False where there is nothing to remove; the global process
    set cannot be removed."""
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    world = operations.context()
    status = _wait_for_all(
        lambda: library.hvd_process_set_remove(world, number, operations.SIGNAL_CHECK_MS)
    )
    if status == operations.INVALID_ARGUMENT:  # there is no such set, or no longer
        return False
    operations.check(status)
    _unbind(number)
    return True


def is_process_set_included(process_set: ProcessSet = global_process_set) -> bool:
    return bool(process_set.included())
