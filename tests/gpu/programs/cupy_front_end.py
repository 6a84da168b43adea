# SPDX-License-Identifier: Apache-2.0
"""horovod.numpy with arrays of CuPy, for any number of ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import cupy

sys.path.append(str(Path(__file__).resolve().parents[2] / "e2e/python/programs"))
from cases import case, run

import horovod.numpy as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
SUM = SIZE * (SIZE + 1) // 2  # of rank + 1
cupy.cuda.Device(hvd.local_rank() % cupy.cuda.runtime.getDeviceCount()).use()


def mine(*shape: int, dtype: str = "float32") -> cupy.ndarray:
    return cupy.full(shape, RANK + 1, dtype=dtype)


@case
def reductions_stay_on_the_gpu() -> None:
    for dtype in ("uint8", "int32", "int64", "float16", "float32", "float64"):
        result = hvd.allreduce(mine(3, 1000, dtype=dtype), op=hvd.Sum)
        assert isinstance(result, cupy.ndarray) and bool((result == SUM).all()), result
    array = mine(4, 6).T
    assert hvd.allreduce_(array, op=hvd.Max) is array
    assert bool((array == SIZE).all()), array
    for result in hvd.grouped_allreduce([mine(1), mine(1 << 20)], op=hvd.Sum):
        assert bool((result == SUM).all())


@case
def rows_come_from_all_ranks() -> None:
    wanted = [rank + 1 for rank in range(SIZE) for _ in range(rank + 1)]
    assert hvd.allgather(mine(RANK + 1)).tolist() == wanted
    assert hvd.broadcast(mine(2), SIZE - 1).tolist() == [SIZE] * 2
    assert bool((hvd.reducescatter(mine(SIZE + 1, 2), op=hvd.Sum) == SUM).all())
    received, splits = hvd.alltoall(mine(SIZE), splits=[1] * SIZE)
    assert received.tolist() == list(range(1, SIZE + 1)), received
    assert splits.tolist() == [1] * SIZE


@case
def results_follow_the_streams_of_the_caller() -> None:
    makes, reads = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for step in range(20):
        with makes:
            array = cupy.full(1 << 20, RANK + 1 + step, dtype="float32")
            handle = hvd.allreduce_async(array, name="streams", op=hvd.Sum)
            del array
        with reads:
            result = hvd.synchronize(handle)
            wrong = int((result != SUM + SIZE * step).sum())
        assert wrong == 0, (step, wrong)


if __name__ == "__main__":
    print(f"world {RANK} {SIZE}", flush=True)
    run()
