# SPDX-License-Identifier: Apache-2.0
"""The operations of horovod.numpy with exact data, for any number of ranks."""

from __future__ import annotations

import array
import importlib
import importlib.util
import sys

import cases
import numpy as np
from cases import case, raises

import horovod.numpy as hvd
from horovod.numpy import cuda_driver
from horovod.numpy.arrays import DTYPES

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
RANKS_SUM = SIZE * (SIZE + 1) // 2  # of rank + 1


class OnDevice:
    """An array of a GPU, by its own words."""

    def __init__(self) -> None:
        self.__cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (64, False)}


class ByDlpack:
    """An array of the host that has nothing but DLPack."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __dlpack__(self, **arguments: object) -> object:
        return self._values.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()


@case
def no_framework_is_imported() -> None:
    assert not {"torch", "tensorflow", "keras", "cupy", "jax"} & set(sys.modules)


@case
def every_type_is_reduced() -> None:
    for name in DTYPES:
        if name == "bfloat16":
            continue
        op = hvd.Max if name == "bool" else hvd.Sum
        result = hvd.allreduce(np.full((2, 3), RANK + 1, dtype=name), op=op)
        wanted = True if name == "bool" else RANKS_SUM
        assert result.dtype == np.dtype(name) and result.shape == (2, 3), result
        assert (result == wanted).all(), result


@case
def bfloat16_is_that_of_ml_dtypes() -> None:
    if importlib.util.find_spec("ml_dtypes") is None:
        return
    bfloat16 = importlib.import_module("ml_dtypes").bfloat16
    result = hvd.allgather(np.full(2, RANK + 1, dtype=bfloat16))
    assert result.dtype == bfloat16
    assert result.tolist() == [rank + 1 for rank in range(SIZE) for _ in range(2)], result


@case
def numbers_and_scalars_keep_their_shape() -> None:
    result = hvd.allreduce(RANK + 1.0)
    assert result.shape == () and result == RANKS_SUM / SIZE, result


@case
def views_of_other_libraries_are_read() -> None:
    values = [1, 2, 3]
    for value in (array.array("i", values), ByDlpack(np.array(values, np.int32)), values):
        assert hvd.allreduce(value, op=hvd.Sum).tolist() == [one * SIZE for one in values]
    assert hvd.allgather(b"ab").tobytes() == b"ab" * SIZE


@case
def a_result_replaces_its_input() -> None:
    matrix = np.full((4, 6), RANK + 1.0)
    every_other = matrix[:, ::2]
    assert hvd.allreduce_(every_other, op=hvd.Sum) is every_other
    assert (matrix[:, ::2] == RANKS_SUM).all() and (matrix[:, 1::2] == RANK + 1).all(), matrix
    numbers = array.array("d", [RANK, RANK])
    assert hvd.broadcast_(numbers, SIZE - 1) is numbers
    assert list(numbers) == [SIZE - 1] * 2
    shared = np.array([RANK + 1])
    hvd.synchronize(hvd.allreduce_async_(ByDlpack(shared), op=hvd.Max))
    assert shared.tolist() == [SIZE]


@case
def what_cannot_be_replaced_is_refused() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    for value in (fixed, b"abc", [1.0, 2.0], 3.0, np.float32(3)):
        assert "cannot replace" in raises(ValueError, lambda value=value: hvd.allreduce_(value))


@case
def what_is_not_supported_is_named() -> None:
    assert "complex64" in raises(ValueError, lambda: hvd.allreduce(np.zeros(2, np.complex64)))
    assert "byte order" in raises(ValueError, lambda: hvd.allreduce(np.zeros(2, ">f4")))
    assert "masked" in raises(TypeError, lambda: hvd.allreduce(np.ma.array([1, 2])))
    cuda_driver._LIBRARY = "no-such-driver.so"
    assert "on a GPU" in raises(NotImplementedError, lambda: hvd.allreduce(OnDevice()))
    assert "empty" in raises(ValueError, lambda: hvd.grouped_allreduce([]))
    assert "Adasum" in raises(RuntimeError, lambda: hvd.reducescatter([1.0], op=hvd.Adasum))


@case
def scales_are_applied() -> None:
    values = np.full(5, RANK + 1.0)
    result = hvd.allreduce(values, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    assert (result == RANKS_SUM).all(), result


@case
def a_group_completes_as_a_unit() -> None:
    values = [np.full(count, RANK + 1) for count in (1, 2, 3)]
    for results in (
        hvd.grouped_allreduce(values, op=hvd.Sum),
        hvd.synchronize(hvd.grouped_allreduce_async(values, op=hvd.Sum, name="group")),
    ):
        assert [one.tolist() for one in results] == [[RANKS_SUM] * count for count in (1, 2, 3)]
    gathered = hvd.grouped_allgather(values)
    assert [len(one) for one in gathered] == [SIZE, 2 * SIZE, 3 * SIZE]
    hvd.grouped_allreduce_(values, op=hvd.Min)
    assert [one.tolist() for one in values] == [[1], [1, 1], [1, 1, 1]]


@case
def rows_of_all_ranks_are_gathered() -> None:
    for columns in (1, 50_000):
        result = hvd.allgather(np.full((RANK + 1, columns), RANK, np.int16))
        wanted = np.repeat(np.arange(SIZE), np.arange(1, SIZE + 1))
        assert result.shape == (RANKS_SUM, columns) and (result[:, -1] == wanted).all()
    assert hvd.allgather(np.empty((0, 3))).shape == (0, 3)


@case
def a_large_result_outlives_its_handle() -> None:
    results = [hvd.allgather(np.full(100_000, turn)) for turn in range(4)]
    assert all((one == turn).all() for turn, one in enumerate(results))


@case
def rows_are_exchanged() -> None:
    rows = hvd.alltoall(np.full((SIZE, 2), RANK))
    assert rows[:, 0].tolist() == list(range(SIZE)), rows
    splits = [place + 1 for place in range(SIZE)]
    rows, received = hvd.alltoall(np.full(sum(splits), RANK), splits)
    assert received.tolist() == [RANK + 1] * SIZE, received
    assert rows.tolist() == [rank for rank in range(SIZE) for _ in range(RANK + 1)], rows
    assert "integers" in raises(ValueError, lambda: hvd.alltoall(np.zeros(SIZE), [0.5] * SIZE))


@case
def rows_are_reduced_and_shared_out() -> None:
    rows = np.arange(SIZE * 2 + 1)[:, None] * np.ones((1, 3))
    mine = hvd.reducescatter(rows, op=hvd.Sum)
    first = RANK * 2 + min(RANK, 1)
    count = 3 if RANK == 0 else 2
    assert mine[:, 0].tolist() == [SIZE * row for row in range(first, first + count)], mine
    (mine,) = hvd.grouped_reducescatter([rows])
    assert len(mine) == count, mine
    assert "scalar" in raises(ValueError, lambda: hvd.reducescatter(1.0))


@case
def handles_are_polled_and_used_once() -> None:
    handle = hvd.allreduce_async(np.ones(3), name="polled")
    result = hvd.synchronize(handle)
    assert (result == 1).all() and hvd.synchronize(handle) is None
    assert "cleared" in raises(ValueError, lambda: hvd.poll(handle))
    handle = hvd.broadcast_async(np.array([RANK]), 0)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle).tolist() == [0]


@case
def more_calls_than_names_may_be_in_flight() -> None:
    handles = [hvd.allreduce_async(np.array([turn]), op=hvd.Max) for turn in range(3000)]
    assert [hvd.synchronize(one)[0] for one in handles] == list(range(3000))


@case
def ranks_that_disagree_are_told() -> None:
    if SIZE > 1:
        values = np.zeros(RANK + 1)
        raises(hvd.HorovodInternalError, lambda: hvd.allreduce(values, name="shapes"))


@case
def sets_and_objects() -> None:
    assert hvd.broadcast_object({"rank": RANK}, SIZE - 1) == {"rank": SIZE - 1}
    assert hvd.allgather_object(RANK) == list(range(SIZE))
    hvd.barrier()
    hvd.shutdown()
    last = hvd.ProcessSet([SIZE - 1])
    hvd.init(process_sets="dynamic")
    if SIZE > 1:
        hvd.add_process_set(last)
        if last.included():
            assert hvd.allreduce(np.array([7.0]), process_set=last).tolist() == [7.0]
        hvd.remove_process_set(last)


@case
def a_rank_joins_while_others_reduce() -> None:
    if RANK == SIZE - 1:
        for turn in range(3):
            result = hvd.allreduce(np.ones(2), op=hvd.Sum, name=f"join.{turn}")
            assert result.tolist() == [1, 1], result
    assert hvd.join() == SIZE - 1 or SIZE == 1


if __name__ == "__main__":
    cases.run()
    print(f"world {RANK} {SIZE}", flush=True)
