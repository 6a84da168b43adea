# SPDX-License-Identifier: Apache-2.0
"""The world of this process: joining and leaving it, and who is where. One for all front ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from ctypes import CDLL, Structure, byref, c_size_t, c_void_p, sizeof
from typing import Any, TypeVar

from horovod.common import mpi
from horovod.common import process_sets as sets
from horovod.common.crash_report import crash_report
from horovod.common.exceptions import HorovodInternalError
from horovod.common.held_back import held_back
from horovod.common.library import (
    Arrivals,
    Counters,
    InitOptions,
    Metrics,
    Topology,
    library,
)
from horovod.common.names import names_in_use, unnamed
from horovod.common.operations import NOT_INITIALIZED, check, context, remember
from horovod.common.versions import tell_versions

R = TypeVar("R", bound=Structure)

# The integers that scripts of the original may have stored; `reduce_op` gives the library's.
Average = 0
Sum = 1
Adasum = 2
Min = 3
Max = 4
Product = 5

_REDUCE_OPS = {
    Average: library.enum("HVD_AVERAGE"),
    Sum: library.enum("HVD_SUM"),
    Min: library.enum("HVD_MIN"),
    Max: library.enum("HVD_MAX"),
    Product: library.enum("HVD_PRODUCT"),
    Adasum: library.enum("HVD_ADASUM"),
}
_OPERATIONS = {
    library.enum(f"HVD_{name.upper()}"): name
    for name in ("allreduce", "allgather", "broadcast", "barrier", "alltoall", "reducescatter")
}
_FEATURE_MPI = library.enum("HVD_FEATURE_MPI")
_FEATURE_GLOO = library.enum("HVD_FEATURE_GLOO")
_FEATURE_NCCL = library.enum("HVD_FEATURE_NCCL")
_FEATURE_CUDA = library.enum("HVD_FEATURE_CUDA")
_FEATURE_CCL = library.enum("HVD_FEATURE_CCL")
_FEATURE_DDL = library.enum("HVD_FEATURE_DDL")
_FEATURE_ROCM = library.enum("HVD_FEATURE_ROCM")
_FEATURE_MPI_USED = library.enum("HVD_FEATURE_MPI_USED")
_FEATURE_MPI_THREADS = library.enum("HVD_FEATURE_MPI_THREADS")


def reduce_op(op: int) -> int:
    """hvd.Average and its kin as the library numbers them."""
    known = _REDUCE_OPS.get(op)
    if known is None:
        raise ValueError(
            f"op is {op!r}: use one of hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, "
            f"hvd.Product"
        )
    return known


def _figures(struct: Structure, *keys: str) -> dict[str, int]:
    """The fields of a struct of the library, but its size and `keys`."""
    names = [field[0] for field in struct._fields_ if field[0] not in ("struct_size", *keys)]
    return {name: int(getattr(struct, name)) for name in names}


def _rows(list_rows: Callable[..., int], kind: type[R]) -> list[R]:
    """What a function of the library that fills rows of `kind` gives."""
    rows = (kind * 0)()
    while True:  # another thread may run a new operation between two calls
        count = c_size_t()
        check(list_rows(context(), rows, len(rows), byref(count)))
        if count.value <= len(rows):
            return list(rows)[: count.value]
        rows = (kind * count.value)()
        rows[0].struct_size = sizeof(kind)


def _load_packaged_nccl() -> None:
    """What the dynamic loader does not find by itself; as `horovodrun --check-build` looks. Not
    where HOROVOD_NCCL_LIBRARY names another file, or the framework has loaded one."""
    if os.environ.get("HOROVOD_NCCL_LIBRARY"):
        return
    with contextlib.suppress(OSError):
        CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD)
        return
    for folder in sys.path:
        file = os.path.join(folder, "nvidia/nccl/lib/libnccl.so.2")
        if folder and os.path.isfile(file):
            with contextlib.suppress(OSError):
                CDLL(file)
            return


class HorovodBasics:
    """The functions that every front end exports under the same names."""

    Average = Average
    Sum = Sum
    Adasum = Adasum
    Min = Min
    Max = Max
    Product = Product

    def __init__(self) -> None:
        self._atexit_pid = 0
        self.worlds_joined = 0  # how often init() has joined a world
        self.mpi_world: Any | None = None  # the communicator that the world was made of
        self._lacks_sets = False  # on some rank the init() that made the world has raised

    def init(
        self,
        comm: Sequence[int] | Any | None = None,
        process_sets: Sequence[sets.ProcessSet] | str | None = None,
    ) -> None:
        """Joins the world that the launcher made; without one it is a world of one rank.

        `comm` may be a communicator of mpi4py, all whose processes call this: the world is theirs.
        Or it lists the ranks of the world: all of them, or, where mpi4py.MPI is imported and has
        the ranks, some that all call this. `process_sets` are made at once, with the ids 1, 2, ...;
        "dynamic" lets sets be added and removed later. A second call changes nothing; sets given
        to it must exist. Raises ValueError for arguments that cannot be met; where two
        communicators in `process_sets` are the same ranks, the world is there nevertheless.
        """
        is_listed = isinstance(comm, Sequence) and len(comm) > 0
        if comm is not None and not isinstance(comm, Sequence) and not mpi.is_communicator(comm):
            raise ValueError(
                f"init(comm={comm!r}): use a communicator of mpi4py, or a list of ranks"
            )
        requested = sets.Requested(process_sets)
        crash_report.install()
        if self._lacks_sets and not requested.exist_on_all(self.mpi_world):
            self.shutdown()
        is_new = not self.is_initialized()
        if is_new:
            self.mpi_world = mpi.subworld(comm) if is_listed else (comm or None)
        self._join(requested, is_new)
        everybody = list(range(self.size()))
        try:
            if is_listed and self.mpi_world is None and sorted(comm) != everybody:
                raise ValueError(
                    f"init(comm={list(comm)}): the launcher made a world of {len(everybody)} "
                    f"ranks; use process_sets=[hvd.ProcessSet({list(comm)})] and no comm, or pass "
                    f"a communicator of mpi4py"
                )
            sets.global_process_set.ranks = everybody
            sets.global_process_set.mpi_comm = self.mpi_world
            requested.bind(self.mpi_world)
        except Exception:
            # The same communicators may be right on other ranks, which are in the world then.
            if is_new and not requested.fails_somewhere:
                self.shutdown()
            raise

    def _join(self, requested: sets.Requested, is_new: bool) -> None:
        options = InitOptions(struct_size=sizeof(InitOptions))
        options.mpi_comm = None if self.mpi_world is None else mpi.address_of(self.mpi_world)
        if is_new:
            requested.fill(options, self.mpi_world)
        handle = c_void_p()
        check(library.hvd_init(byref(options), byref(handle)))
        remember(handle.value or 0)
        self._leave_at_exit()
        if is_new:
            self._lacks_sets = requested.fails_somewhere
            self.worlds_joined += 1
            unnamed.restart()
            if self.local_rank() == 0 and self.cross_size() > 1:
                tell_versions()

    def _leave_at_exit(self) -> None:
        if self._atexit_pid != os.getpid():
            self._atexit_pid = os.getpid()
            atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        # A forked child is not the rank, and a rank that dies of an exception must not wait for
        # others: the kernel ends its part of the world.
        if self._atexit_pid == os.getpid() and not crash_report.is_dying():
            self.shutdown()

    def shutdown(self) -> None:
        """Leaves the world. Without one it does nothing; init() may follow: under
        `horovodrun --on-failure wait` it makes a world without ranks that have ended."""
        current = library.hvd_current()
        if current is not None:
            check(library.hvd_shutdown(current))
            held_back.fail_all(HorovodInternalError("this rank has shut down"))
            names_in_use.clear()
        self._lacks_sets = False
        sets.global_process_set.ranks = None
        sets.global_process_set.mpi_comm = None
        sets.unbind_all()

    def is_initialized(self) -> bool:
        return library.hvd_current() is not None

    def _topology(self) -> Topology:
        topology = Topology(struct_size=sizeof(Topology))
        check(library.hvd_topology_of(context(), byref(topology)))
        return topology

    def size(self) -> int:
        """How many ranks there are. As all of its kind, raises ValueError before init."""
        return int(self._topology().size)

    def rank(self) -> int:
        return int(self._topology().rank)

    def local_size(self) -> int:
        """How many ranks this host has."""
        return int(self._topology().local_size)

    def local_rank(self) -> int:
        """This rank's place among those of its host."""
        return int(self._topology().local_rank)

    def cross_size(self) -> int:
        """How many hosts have a rank with this local rank."""
        return int(self._topology().cross_size)

    def cross_rank(self) -> int:
        """This host's place among them."""
        return int(self._topology().cross_rank)

    def is_homogeneous(self) -> bool:
        """True where every host has the same number of ranks."""
        return bool(self._topology().is_homogeneous)

    def mpi_threads_supported(self) -> bool:
        """Whether MPI was started with full thread support; False where MPI is not in use."""
        if not self.is_initialized():
            raise ValueError(NOT_INITIALIZED)
        return library.hvd_feature_value(_FEATURE_MPI_THREADS) != 0

    def mpi_enabled(self) -> bool:
        """Whether the operations of this world travel by MPI: HOROVOD_CPU_OPERATIONS=mpi."""
        return library.hvd_feature_value(_FEATURE_MPI_USED) != 0

    def mpi_built(self) -> bool:
        """Whether this installation has a plugin for an MPI."""
        return library.hvd_feature_value(_FEATURE_MPI) != 0

    def gloo_enabled(self) -> bool:
        """Whether operations travel by the native transport, which answers to this name."""
        return self.gloo_built()

    def gloo_built(self) -> bool:
        return library.hvd_feature_value(_FEATURE_GLOO) != 0

    def nccl_built(self) -> int:
        """The version code of the NCCL library found, such as 22707, or 0.

        HOROVOD_NCCL_LIBRARY names it; else it is the one that a framework has loaded, that of the
        Python packages (PyTorch brings it along), or that of the dynamic loader. It is loaded for
        this question; init() never does that.
        """
        _load_packaged_nccl()
        return int(library.hvd_feature_value(_FEATURE_NCCL))

    def ddl_built(self) -> bool:
        return library.hvd_feature_value(_FEATURE_DDL) != 0

    def ccl_built(self) -> bool:
        return library.hvd_feature_value(_FEATURE_CCL) != 0

    def cuda_built(self) -> bool:
        """Whether this build takes GPU tensors."""
        return library.hvd_feature_value(_FEATURE_CUDA) != 0

    def rocm_built(self) -> bool:
        return library.hvd_feature_value(_FEATURE_ROCM) != 0

    def start_timeline(self, file_path: str, mark_cycles: bool = False) -> None:
        """Writes what rank 0 does and sees to a file of Chrome's trace viewer, until stop_timeline.
        Another file takes the place of the one that is being written."""
        path = os.fspath(file_path)
        check(library.hvd_timeline_start(context(), path.encode(), int(mark_cycles)))

    def stop_timeline(self) -> None:
        check(library.hvd_timeline_stop(context()))

    def counters(self) -> dict[str, int]:
        """What this rank has done since init; the fields of hvd_counters in hvd.h."""
        counters = Counters(struct_size=sizeof(Counters))
        check(library.hvd_counters_of(context(), byref(counters)))
        return _figures(counters)

    def metrics(self) -> dict[int, dict[str, dict[str, Any]]]:
        """What this rank has done of each operation in each process set, since init.

        `hvd.metrics()[0]["allreduce"]["wire_ns"]`: by the set's id, the operation's name (such as
        "allreduce") and a field of hvd_metrics in hvd.h, where their meaning is told. "arrivals"
        are the ranks that the others have waited for, each with hvd_arrivals' "times" that it came
        last and the "wait_ns" that this rank waited then. Operations that this rank has not run in
        a set are left out.
        """
        found: dict[int, dict[str, dict[str, Any]]] = {}
        for row in _rows(library.hvd_metrics_of, Metrics):
            figures: dict[str, Any] = _figures(row, "process_set", "op")
            figures["arrivals"] = {}
            found.setdefault(row.process_set, {})[_OPERATIONS[row.op]] = figures
        for row in _rows(library.hvd_arrivals_of, Arrivals):
            figures = found.get(row.process_set, {}).get(_OPERATIONS[row.op], {"arrivals": {}})
            figures["arrivals"][row.rank] = {"times": row.times, "wait_ns": row.wait_ns}
        return found

    def _get_process_set_ids_and_ranks(self) -> dict[int, list[int]]:
        return sets.ids_and_ranks()


basics = HorovodBasics()
