# SPDX-License-Identifier: Apache-2.0
"""The operations of horovod.torch with exact data, for any number of ranks."""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path

import torch
from cases import case, raises, run

import horovod.torch as hvd

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
WIDE = [torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ALL = [torch.bool, *INTEGERS, *WIDE, *FLOATS]
SHAPES = [(), (1,), (7,), (3, 5), (0,), (2, 0, 3), (17, 1031)]


def mine(shape: tuple[int, ...], dtype: torch.dtype, rank: int) -> torch.Tensor:
    """Small integers that differ by place and rank, so that every sum is exact in every type."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count, dtype=torch.int64) * 3 + rank) % 5
    return values.reshape(shape).to(dtype)


def everybody(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """All ranks' data as int64, stacked."""
    return torch.stack([mine(shape, dtype, rank).long() for rank in range(hvd.size())])


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert torch.equal(actual.double(), expected.double()), (actual, expected)


@case
def sums_are_exact_for_every_type_and_shape() -> None:
    for dtype in INTEGERS + WIDE + FLOATS:
        for shape in SHAPES:
            tensor = mine(shape, dtype, hvd.rank())
            result = hvd.allreduce(tensor, op=hvd.Sum)
            assert result.dtype == dtype
            same(result, everybody(shape, dtype).sum(0))
            same(tensor, mine(shape, dtype, hvd.rank()))


@case
def other_ops_are_exact_for_every_type() -> None:
    shape = (3, 5)
    for dtype in INTEGERS + WIDE + FLOATS:
        tensor = mine(shape, dtype, hvd.rank())
        every = everybody(shape, dtype)
        same(hvd.allreduce(tensor, op=hvd.Min), every.amin(0))
        same(hvd.allreduce(tensor, op=hvd.Max), every.amax(0))
        if hvd.size() <= 3:  # 4 ** 3 still fits into int8
            same(hvd.allreduce(tensor, op=hvd.Product), every.prod(0))


@case
def bool_is_or_and_and() -> None:
    tensor = torch.tensor([False, hvd.rank() == 0, True])
    assert hvd.allreduce(tensor, op=hvd.Sum).tolist() == [False, True, True]
    assert hvd.allreduce(tensor, op=hvd.Min).tolist() == [False, hvd.size() == 1, True]


@case
def averages_divide_once() -> None:
    size = hvd.size()
    tensor = torch.full((5,), float(hvd.rank()))
    assert hvd.allreduce(tensor).tolist() == [(size - 1) / 2] * 5
    integers = torch.tensor([hvd.rank(), -hvd.rank()])
    total = size * (size - 1) // 2
    assert hvd.allreduce(integers).tolist() == [total // size, -(total // size)]


@case
def the_old_average_argument_still_works() -> None:
    size = hvd.size()
    tensor = torch.ones(2)
    assert hvd.allreduce(tensor, average=False).tolist() == [size] * 2
    assert hvd.allreduce(tensor, average=True).tolist() == [1.0] * 2
    raises(ValueError, lambda: hvd.allreduce(tensor, average=True, op=hvd.Sum))


@case
def scales_apply_before_and_after() -> None:
    tensor = torch.full((4,), float(hvd.rank() + 1))
    result = hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    total = hvd.size() * (hvd.size() + 1) / 2
    assert result.tolist() == [total] * 4
    halves = hvd.allreduce(tensor.half(), op=hvd.Sum, prescale_factor=0.25)
    assert halves.tolist() == [total / 4] * 4


@case
def in_place_forms_replace_the_input() -> None:
    total = float(sum(range(hvd.size())))
    tensor = torch.full((3, 4), float(hvd.rank()))
    assert hvd.allreduce_(tensor, op=hvd.Sum) is tensor
    same(tensor, torch.full((3, 4), total))
    tensor = torch.full((2,), float(hvd.rank()))
    assert hvd.broadcast_(tensor, root_rank=hvd.size() - 1) is tensor
    assert tensor.tolist() == [hvd.size() - 1.0] * 2


@case
def tensors_need_not_be_contiguous() -> None:
    base = mine((6, 8), torch.float32, hvd.rank())
    expected = everybody((6, 8), torch.float32).sum(0)
    same(hvd.allreduce(base.t(), op=hvd.Sum), expected.t())
    hvd.allreduce_(base[::2, 1::3], op=hvd.Sum)
    same(base[::2, 1::3], expected[::2, 1::3])
    same(base[1::2], mine((6, 8), torch.float32, hvd.rank())[1::2])
    images = mine((2, 3, 4, 5), torch.float32, hvd.rank()).to(memory_format=torch.channels_last)
    if hvd.rank() == 0:
        images = images.contiguous()
    same(hvd.allreduce(images, op=hvd.Sum), everybody((2, 3, 4, 5), torch.float32).sum(0))


@case
def scalars_keep_their_shape() -> None:
    result = hvd.allreduce(torch.tensor(2.0), op=hvd.Sum)
    assert result.shape == torch.Size([]) and result.item() == 2.0 * hvd.size()
    assert hvd.broadcast(torch.tensor(hvd.rank()), 0).shape == torch.Size([])


@case
def parameters_that_want_gradients_are_taken() -> None:
    parameter = torch.nn.Parameter(torch.full((3,), float(hvd.rank())))
    hvd.broadcast_(parameter, 0)
    assert parameter.tolist() == [0.0] * 3 and parameter.requires_grad
    hvd.broadcast_parameters({"p": parameter}, 0)


@case
def handles_are_polled_and_synchronized_once() -> None:
    handle = hvd.allreduce_async(torch.ones(1000), op=hvd.Sum, name="polled")
    hvd.barrier()
    result = hvd.synchronize(handle)
    assert result.tolist() == [hvd.size()] * 1000
    assert hvd.synchronize(handle) is None
    assert "not created" in raises(ValueError, lambda: hvd.poll(handle))
    if hvd.size() > 1:
        late = None if hvd.rank() == 0 else hvd.allreduce_async(torch.ones(2), name="late")
        assert late is None or not hvd.poll(late)
        hvd.barrier()
        late = late or hvd.allreduce_async(torch.ones(2), name="late")
        hvd.synchronize(late)


@case
def many_names_in_any_order() -> None:
    order = list(range(300))
    random.Random(hvd.rank()).shuffle(order)
    handles = {i: hvd.allreduce_async(torch.full((i % 7 + 1,), i), name=f"n{i}") for i in order}
    random.Random(hvd.rank() + 100).shuffle(order)
    for i in order:
        assert hvd.synchronize(handles[i]).tolist() == [i] * (i % 7 + 1)


@case
def groups_complete_as_a_unit() -> None:
    tensors = [torch.full((i,), float(hvd.rank() + i)) for i in range(1, 5)]
    total = sum(range(hvd.size()))
    for i, result in enumerate(hvd.grouped_allreduce(tensors, op=hvd.Sum), start=1):
        assert result.tolist() == [total + i * hvd.size()] * i
    results = hvd.synchronize(hvd.grouped_allreduce_async(tensors, op=hvd.Max, name="group"))
    assert [one[0].item() for one in results] == [hvd.size() - 1 + i for i in range(1, 5)]
    assert hvd.grouped_allreduce_(tensors, op=hvd.Sum)[0] is tensors[0]
    assert tensors[3].tolist() == [total + 4 * hvd.size()] * 4
    raises(ValueError, lambda: hvd.grouped_allreduce([]))


@case
def allgather_joins_unequal_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    for dtype in ALL:
        result = hvd.allgather(torch.full((rank + 1, 2), rank).to(dtype))
        assert result.dtype == dtype
        expected = torch.cat([torch.full((r + 1, 2), r).to(dtype) for r in range(size)])
        assert torch.equal(result, expected), (result, expected)
    none_from_the_first = torch.full((rank, 3), float(rank))
    assert hvd.allgather(none_from_the_first).shape == (sum(range(size)), 3)
    nothing = hvd.allgather(torch.empty(0, 3))
    assert nothing.shape == (0, 3)
    first, second = hvd.grouped_allgather([torch.ones(rank + 1), torch.zeros(1, 2)])
    assert first.shape == (size * (size + 1) // 2,) and second.shape == (size, 2)


@case
def broadcast_gives_the_roots_tensor() -> None:
    for root in range(hvd.size()):
        for dtype in ALL:
            tensor = mine((5, 3), dtype, hvd.rank())
            result = hvd.broadcast(tensor, root)
            assert result.dtype == dtype
            assert torch.equal(result, mine((5, 3), dtype, root))
            assert torch.equal(tensor, mine((5, 3), dtype, hvd.rank()))


@case
def objects_travel() -> None:
    here = {"rank": hvd.rank(), "list": [1, "x" * 5000], "f": lambda: 7}
    got = hvd.broadcast_object(here if hvd.rank() == 0 else None, 0)
    assert got["rank"] == 0 and got["list"] == [1, "x" * 5000] and got["f"]() == 7
    assert hvd.allgather_object("r" * hvd.rank()) == ["r" * r for r in range(hvd.size())]


@case
def gradients_flow_through_operations() -> None:
    size, rank = hvd.size(), hvd.rank()
    x = torch.ones(3, requires_grad=True)
    hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0).mul(float(rank)).sum().backward()
    assert x.grad.tolist() == [2.0 * sum(range(size))] * 3
    x = torch.ones(rank + 1, 2, requires_grad=True)
    weight = torch.arange(float(size * (size + 1) // 2)).unsqueeze(1)
    (hvd.allgather(x) * weight).sum().backward()
    first = rank * (rank + 1) // 2
    assert torch.equal(x.grad, weight[first : first + rank + 1].expand(-1, 2))
    x = torch.ones(2, requires_grad=True)
    hvd.broadcast(x, 0).mul(float(rank)).sum().backward()
    assert x.grad.tolist() == [(size - 1) / 2 if rank == 0 else 0.0] * 2
    x, y = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    a, b = hvd.grouped_allreduce([x, y], op=hvd.Sum)
    (a.sum() + 2 * b.sum()).backward()
    assert x.grad.tolist() == [size] * 2 and y.grad.tolist() == [2.0 * size] * 3


@case
def a_training_loop_without_names_uses_the_cache() -> None:
    if hvd.size() == 1:
        return
    from horovod.common.names import unnamed

    for _ in range(unnamed.period):
        hvd.allreduce(torch.tensor(1.0))
    before = hvd.mpi_ops._basics.counters()
    for _ in range(100):
        hvd.allreduce(torch.tensor(1.0))
    after = hvd.mpi_ops._basics.counters()
    assert after["agreed_by_name"] == before["agreed_by_name"], (before, after)
    assert after["names_bytes"] == before["names_bytes"], (before, after)


@case
def what_is_not_supported_says_so() -> None:
    assert "complex64" in raises(
        ValueError, lambda: hvd.allreduce(torch.ones(2, dtype=torch.complex64))
    )
    assert "sparse" in raises(ValueError, lambda: hvd.allreduce(torch.ones(3).to_sparse()))
    assert "list" in raises(TypeError, lambda: hvd.allreduce([1.0]))
    assert "NUL" in raises(ValueError, lambda: hvd.allreduce(torch.ones(3), name="a\0b"))
    assert "meta" in raises(
        NotImplementedError, lambda: hvd.allreduce(torch.ones(3, device="meta"))
    )
    assert "elastic" in raises(NotImplementedError, lambda: hvd.elastic.run(print))


@case
def a_timeline_starts_and_stops() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "timeline.json"
        hvd.start_timeline(str(file), mark_cycles=True)
        hvd.allreduce(torch.ones(3), name="seen")
        hvd.stop_timeline()
        hvd.barrier()  # rank 0 sees what the others announce until it has stopped, too
        hvd.allreduce(torch.ones(3), name="unseen")
        written = file.read_text() if file.is_file() else None
        if hvd.rank() == 0:
            assert "seen" in written and "unseen" not in written
            assert isinstance(json.loads(written), list | dict)


@case
def a_timeline_may_be_started_and_stopped_twice() -> None:
    """As in the original: an error of rank 0, which alone writes, would leave the others alone."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first.json", Path(folder) / "second.json"
        for file in (first, first, second):
            hvd.start_timeline(str(file))
            hvd.barrier()  # until rank 0 has started it sees what the others announce in the first
            hvd.allreduce(torch.ones(3), name=f"in.{file.stem}")
        for _ in range(2):
            hvd.stop_timeline()
        if hvd.rank() == 0:
            assert "in.first" in first.read_text() and "in.second" not in first.read_text()
            assert "in.second" in second.read_text() and "in.first" not in second.read_text()


@case
def a_root_that_is_no_rank_is_a_value_error() -> None:
    raises(ValueError, lambda: hvd.broadcast(torch.ones(1), hvd.size()))


@case
def ranks_that_disagree_get_an_error_that_names_them() -> None:
    if hvd.size() == 1:
        return
    is_odd = hvd.rank() == 1
    shape = raises(
        hvd.HorovodInternalError,
        lambda: hvd.allreduce(torch.ones(17 if is_odd else 18), name="bad.shape"),
    )
    assert "bad.shape" in shape and "17" in shape and "18" in shape, shape
    dtype = raises(
        hvd.HorovodInternalError,
        lambda: hvd.allreduce(
            torch.ones(3, dtype=torch.float64 if is_odd else torch.float32), name="bad.dtype"
        ),
    )
    assert "bad.dtype" in dtype and "float64" in dtype and "float32" in dtype, dtype
    root = raises(
        hvd.HorovodInternalError,
        lambda: hvd.broadcast(torch.ones(3), 1 if is_odd else 0, name="bad.root"),
    )
    assert "bad.root" in root, root
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [hvd.size()] * 2


@case
def a_pending_name_is_a_value_error() -> None:
    handle = hvd.allreduce_async(torch.ones(1), name="twice") if hvd.rank() == 0 else None
    if handle is not None and hvd.size() > 1:
        message = raises(ValueError, lambda: hvd.allreduce_async(torch.ones(1), name="twice"))
        assert "twice" in message, message
    hvd.barrier()
    hvd.synchronize(handle or hvd.allreduce_async(torch.ones(1), name="twice"))


@case
def a_name_is_taken_until_the_program_waits() -> None:
    """Also where the operation has ended long ago: ranks that are faster get the same error."""
    handle = hvd.allreduce_async(torch.ones(1), name="taken")
    hvd.allreduce_async(torch.ones(1), name="free")
    time.sleep(0.05)
    for call in (hvd.allreduce_async, hvd.allreduce):
        message = raises(ValueError, lambda call=call: call(torch.ones(1), name="taken"))
        assert "'allreduce.taken'" in message, message
    while not hvd.poll(handle):
        time.sleep(0.001)
    handle = hvd.allreduce_async(torch.ones(1), name="taken")  # the first was never synchronized
    hvd.synchronize(handle)
    hvd.synchronize(hvd.allreduce_async(torch.ones(1), name="free"))
    hvd.allreduce_async(torch.ones(1), name="taken")
    hvd.shutdown()
    hvd.init()
    hvd.synchronize(hvd.allreduce_async(torch.ones(1), name="taken"))


@case
def init_and_shutdown_may_be_repeated() -> None:
    size = hvd.size()
    for number in range(30):
        hvd.init()  # changes nothing while there is a world
        hvd.shutdown()
        assert not hvd.is_initialized()
        assert "init" in raises(ValueError, hvd.rank)
        hvd.init()
        assert hvd.size() == size
        assert hvd.allreduce(torch.tensor(float(number)), op=hvd.Sum).item() == number * size


@case
def the_global_process_set_is_the_world() -> None:
    everybody_again = hvd.ProcessSet(range(hvd.size()))
    raises(ValueError, lambda: hvd.add_process_set(everybody_again))
    raises(ValueError, lambda: hvd.add_process_set([hvd.size() + 1]))
    assert hvd.remove_process_set(hvd.global_process_set) is False
    assert "init" in raises(
        ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=everybody_again)
    )
    assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks() == {0: list(range(hvd.size()))}
    assert hvd.global_process_set.included() and hvd.global_process_set.size() == hvd.size()
    assert hvd.global_process_set.rank() == hvd.rank()


@case
def large_results_stay_when_others_come_and_go() -> None:
    """Their memory is the library's, and is given back with the tensor."""
    rows = 50_000 * hvd.size()
    kept = []
    for number in range(4):
        sent = torch.full((rows, 1), float(number + hvd.rank()))
        received = hvd.alltoall(sent, name="large")
        _ = hvd.alltoall(sent, name="large.dropped")
        kept.append((number, received[:50_000].clone(), received.view(-1)[:50_000]))
    for number, copy, view in kept:
        assert torch.equal(copy.view(-1), view)
        assert torch.equal(view, torch.full((50_000,), float(number)))


if __name__ == "__main__":
    hvd.init()
    print(f"world {hvd.rank()} {hvd.size()}\n", end="", flush=True)
    run()
