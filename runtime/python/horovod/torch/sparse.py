# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors: the indices and values of all ranks, gathered into one sparse tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch

from horovod.common import operations
from horovod.common.basics import Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import submission
from horovod.torch.submission import Place, Settings


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None,
    op: int,
    process_set: ProcessSet = global_process_set,
) -> Callable[[], torch.Tensor]:
    """The sum or average of a sparse tensor over all ranks. Returns a function that waits for the
    result, a sparse tensor in which an index may occur more than once."""
    if op not in (Average, Sum):
        raise ValueError("sparse_allreduce_async: op must be hvd.Average or hvd.Sum")
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.sparse_coo:
        raise ValueError(
            f"sparse_allreduce_async: the tensor has the layout {tensor.layout}; use "
            f"hvd.allreduce, or tensor.to_sparse_coo()"
        )
    # Rows of indices and of values, which allgather joins.
    rows = [("indices", tensor._indices().t()), ("values", tensor._values())]
    batch = submission.each("allgather", rows, name)
    settings = Settings(op=operations.ALLGATHER, place=Place.allocated, process_set=process_set)
    handle = submission.start(batch, settings)

    def wait() -> torch.Tensor:
        indices, values = submission.synchronize(handle)
        if op == Average:
            values = values / (process_set.size() or 1)
        return torch.sparse_coo_tensor(indices.t(), values, tensor.shape, check_invariants=False)

    return wait
