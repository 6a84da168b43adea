# SPDX-License-Identifier: Apache-2.0
"""One rank of each host before the others of that host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from horovod.common import operations
from horovod.common.basics import basics

_NAME = "local_first"


@contextlib.contextmanager
def local_first() -> Iterator[None]:
    """`with hvd.local_first(): data = download()`: local rank 0 of each host runs the block first,
    the other ranks after all of those have left it, and then find what it has stored.

    A collective: every rank of the job enters it, and no collective is called inside. A block that
    raises lets the other ranks in all the same.
    """
    is_first = basics.local_rank() == 0
    if not is_first:
        operations.barrier(_NAME)
    try:
        yield
    finally:
        if is_first:
            operations.barrier(_NAME)
