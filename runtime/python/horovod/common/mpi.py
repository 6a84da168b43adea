# SPDX-License-Identifier: Apache-2.0
"""Communicators of mpi4py, which is never imported here: who has one has imported it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any


def _mpi() -> Any:
    return sys.modules.get("mpi4py.MPI")


def is_communicator(value: object) -> bool:
    mpi = _mpi()
    return mpi is not None and isinstance(value, mpi.Comm)


def address_of(communicator: Any) -> int:
    """Where its MPI_Comm lies."""
    return int(_mpi()._addressof(communicator))


def ranks_in(communicator: Any, world: Any | None) -> list[int]:
    """The members of a communicator as ranks of `world`, or of MPI_COMM_WORLD; empty where this
    process is no member. Raises ValueError where one is outside of the world."""
    mpi = _mpi()
    if communicator == mpi.COMM_NULL:
        return []
    group = communicator.Get_group()
    everybody = (world or mpi.COMM_WORLD).Get_group()
    ranks = mpi.Group.Translate_ranks(group, list(range(group.size)), everybody)
    group.Free()
    everybody.Free()
    if mpi.UNDEFINED in ranks:
        raise ValueError(
            f"a process set of {communicator!r}: some of its ranks are not in hvd.init's"
        )
    return sorted(ranks)


def allgather(value: Any, world: Any | None) -> list[Any]:
    """The value of every rank of `world`, or of MPI_COMM_WORLD."""
    gathered: list[Any] = (world or _mpi().COMM_WORLD).allgather(value)
    return gathered


def subworld(ranks: Sequence[int]) -> Any | None:
    """A communicator of these ranks of MPI_COMM_WORLD, in this order, which are to call this
    together. None where they are all ranks, where MPI_COMM_WORLD has not all of them, and where
    this process is none of them."""
    mpi = _mpi()
    if mpi is None or not mpi.Is_initialized():
        return None
    everybody = mpi.COMM_WORLD
    is_part = len(set(ranks)) < everybody.size and max(ranks) < everybody.size
    if not is_part or everybody.rank not in ranks:
        return None
    return everybody.Create_group(everybody.Get_group().Incl(list(ranks)))
