# SPDX-License-Identifier: Apache-2.0
"""alltoall, reducescatter, Adasum, join, sparse and compressed tensors with exact data."""

from __future__ import annotations

from collections.abc import Callable

import torch
from cases import case, raises, run

import horovod.torch as hvd

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
ALL = [torch.bool, *INTEGERS, torch.uint16, torch.uint32, torch.uint64, *FLOATS]


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert torch.equal(actual.double(), expected.double()), (actual, expected)


def rows_of(rank: int, count: int, columns: int = 2) -> torch.Tensor:
    """Small integers that differ by rank and place."""
    values = torch.arange(count * columns).reshape(count, columns)
    return (values * 3 + rank * 7) % 11


@case
def alltoall_gives_equal_shares() -> None:
    size, rank = hvd.size(), hvd.rank()
    for dtype in ALL:
        result = hvd.alltoall(rows_of(rank, 2 * size).to(dtype))
        assert result.dtype == dtype
        own = slice(2 * rank, 2 * rank + 2)
        same(result, torch.cat([rows_of(r, 2 * size).to(dtype)[own] for r in range(size)]))


@case
def alltoall_gives_as_many_rows_as_splits_say() -> None:
    size, rank = hvd.size(), hvd.rank()
    splits = [(rank + place) % 3 for place in range(size)]
    tensor = rows_of(rank, sum(splits))
    for given in (splits, torch.tensor(splits), torch.tensor(splits, dtype=torch.int32)):
        output, received = hvd.alltoall(tensor, splits=given)
        assert received.tolist() == [(r + rank) % 3 for r in range(size)]
        assert received.dtype == torch.int32
        parts = []
        for r in range(size):
            theirs = [(r + place) % 3 for place in range(size)]
            before = sum(theirs[:rank])
            parts.append(rows_of(r, sum(theirs))[before : before + theirs[rank]])
        same(output, torch.cat(parts))
    handle = hvd.alltoall_async(tensor, splits, name="by handle")
    output, received = hvd.synchronize(handle)
    same(output, torch.cat(parts))
    assert len(received) == size


@case
def alltoall_may_send_fewer_rows_than_there_are() -> None:
    size, rank = hvd.size(), hvd.rank()
    output, received = hvd.alltoall(rows_of(rank, size + 3), splits=[1] * size)
    assert received.tolist() == [1] * size
    same(output, torch.stack([rows_of(r, size + 3)[rank] for r in range(size)]))
    nothing, received = hvd.alltoall(rows_of(rank, 2), splits=[0] * size)
    assert nothing.shape == (0, 2) and received.tolist() == [0] * size


@case
def bad_splits_are_value_errors_and_harm_nothing() -> None:
    size = hvd.size()
    tensor = torch.ones(size)
    for splits in ([1] * (size + 1), [size + 1] + [0] * (size - 1), [-1] + [1] * (size - 1)):
        raises(ValueError, lambda splits=splits: hvd.alltoall(tensor, splits=splits))
    raises(ValueError, lambda: hvd.alltoall(tensor, splits=torch.ones(size)))
    raises(ValueError, lambda: hvd.alltoall(tensor, splits=[[1] * size]))
    raises(ValueError, lambda: hvd.alltoall(torch.tensor(1.0)))
    if size > 1:
        raises(ValueError, lambda: hvd.alltoall(torch.ones(size + 1)))
    assert hvd.alltoall(tensor).tolist() == [1.0] * size


@case
def gradients_flow_through_alltoall() -> None:
    size, rank = hvd.size(), hvd.rank()
    splits = [place + 1 for place in range(size)]
    x = torch.ones(sum(splits) + 2, 3, requires_grad=True)
    output, received = hvd.alltoall(x, splits)
    assert not received.requires_grad
    output.mul(float(rank)).sum().backward()
    of_rows = torch.repeat_interleave(torch.arange(float(size)), torch.tensor(splits))
    expected = torch.cat([of_rows, torch.zeros(2)]).unsqueeze(1).expand(-1, 3)
    same(x.grad, expected)
    x = torch.ones(size, requires_grad=True)
    hvd.alltoall(x).mul(float(rank)).sum().backward()
    assert x.grad.tolist() == list(range(size))


def share_of(total: torch.Tensor) -> torch.Tensor:
    """This rank's rows: the first ranks have one more."""
    rows, longer = divmod(len(total), hvd.size())
    counts = [rows + (place < longer) for place in range(hvd.size())]
    return total.split(counts)[hvd.rank()] if len(total) else total


@case
def reducescatter_gives_each_rank_its_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    for rows in (size, 2 * size + 1, size - 1, 0):
        every = torch.stack([rows_of(r, rows) for r in range(size)])
        for dtype in (torch.int32, torch.int64, *FLOATS):
            tensor = rows_of(rank, rows).to(dtype)
            result = hvd.reducescatter(tensor, op=hvd.Sum)
            assert result.dtype == dtype
            same(result, share_of(every.sum(0)))
            same(hvd.reducescatter(tensor, op=hvd.Min), share_of(every.amin(0)))
            same(hvd.reducescatter(tensor, op=hvd.Max), share_of(every.amax(0)))
        same(hvd.reducescatter(rows_of(rank, rows), op=hvd.Product), share_of(every.prod(0)))


@case
def reducescatter_averages_by_default_and_scales() -> None:
    size, rank = hvd.size(), hvd.rank()
    tensor = torch.full((size, 3), float(rank))
    assert hvd.reducescatter(tensor).tolist() == [[(size - 1) / 2] * 3]
    scaled = hvd.reducescatter(tensor, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
    assert scaled.tolist() == [[float(sum(range(size)))] * 3]
    half = hvd.reducescatter(tensor, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert half.dtype == torch.float32 and half.tolist() == scaled.tolist()
    handle = hvd.reducescatter_async(tensor, name="by handle", op=hvd.Max)
    assert hvd.synchronize(handle).tolist() == [[size - 1.0] * 3]
    same(tensor, torch.full((size, 3), float(rank)))


@case
def groups_of_reducescatter_complete_as_a_unit() -> None:
    size, rank = hvd.size(), hvd.rank()
    tensors = [torch.full((i * size, 2), float(rank + i)) for i in (1, 2, 3)]
    total = sum(range(size))
    shares = hvd.grouped_reducescatter(tensors, op=hvd.Sum)
    for i, share in zip((1, 2, 3), shares, strict=True):
        same(share, torch.full((i, 2), float(total + i * size)))
    handle = hvd.grouped_reducescatter_async(tensors)
    assert [tuple(one.shape) for one in hvd.synchronize(handle)] == [(1, 2), (2, 2), (3, 2)]


@case
def reducescatter_refuses_what_it_cannot_do() -> None:
    raises(RuntimeError, lambda: hvd.reducescatter(torch.ones(4), op=hvd.Adasum))
    raises(RuntimeError, lambda: hvd.grouped_reducescatter([torch.ones(4)], op=hvd.Adasum))
    raises(ValueError, lambda: hvd.reducescatter(torch.tensor(1.0)))
    raises(ValueError, lambda: hvd.reducescatter(torch.ones(4), op=17))


@case
def gradients_flow_through_reducescatter() -> None:
    """As the original has it: of a sum they are multiplied by the number of ranks."""
    size, rank = hvd.size(), hvd.rank()
    of_rows = torch.repeat_interleave(torch.arange(float(size)), 2).unsqueeze(1).expand(-1, 3)
    for op, factor in ((hvd.Sum, size), (hvd.Average, 1)):
        x = torch.ones(2 * size, 3, requires_grad=True)
        hvd.reducescatter(x, op=op, prescale_factor=0.5).mul(float(rank)).sum().backward()
        same(x.grad, of_rows * factor * 0.5)
        x, y = (torch.ones(2 * size, 3, requires_grad=True) for _ in range(2))
        a, b = hvd.grouped_reducescatter([x, y], op=op)
        (a.mul(float(rank)).sum() + 2 * b.mul(float(rank)).sum()).backward()
        same(x.grad, of_rows * factor)
        same(y.grad, of_rows * factor * 2)


@case
def gradients_flow_through_grouped_allgather() -> None:
    size, rank = hvd.size(), hvd.rank()
    x, y = torch.ones(rank + 1, requires_grad=True), torch.ones(2, 2, requires_grad=True)
    a, b = hvd.grouped_allgather([x, y])
    (a.mul(torch.arange(float(len(a)))).sum() + b.mul(float(rank)).sum()).backward()
    first = rank * (rank + 1) // 2
    assert x.grad.tolist() == [float(first + i) for i in range(rank + 1)]
    assert y.grad.tolist() == [[(size - 1) / 2] * 2] * 2


@case
def gradients_of_gradients_flow_too() -> None:
    x = torch.full((3,), 2.0, requires_grad=True)
    (gradient,) = torch.autograd.grad(hvd.allreduce(x**3, op=hvd.Sum).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert x.grad.tolist() == [6.0 * 2.0 * hvd.size()] * 3


def adasum_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Maleki et al., 2020, in float64."""
    a, b = a.double(), b.double()
    dot = (a * b).sum()
    return a * (1 - dot / (2 * a.square().sum())) + b * (1 - dot / (2 * b.square().sum()))


def vector(rank: int) -> torch.Tensor:
    return torch.randn(37, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)


@case
def adasum_is_that_of_the_paper() -> None:
    size, rank = hvd.size(), hvd.rank()
    for dtype, tolerance in ((torch.float16, 1e-2), (torch.float32, 1e-6), (torch.float64, 1e-14)):
        own = vector(rank).to(dtype)
        result = hvd.allreduce(own, op=hvd.Adasum)
        assert result.dtype == dtype
        everywhere = hvd.allgather(result.unsqueeze(0))
        same(everywhere, everywhere[:1].expand(size, -1))
        if size == 2:
            expected = adasum_of(vector(0).to(dtype), vector(1).to(dtype))
            assert torch.allclose(result.double(), expected, rtol=0, atol=tolerance)


@case
def adasum_keeps_what_is_equal_and_adds_what_is_orthogonal() -> None:
    size, rank = hvd.size(), hvd.rank()
    equal = hvd.allreduce(torch.tensor([3.0, -4.0]), op=hvd.Adasum)
    assert torch.allclose(equal, torch.tensor([3.0, -4.0]))
    orthogonal = torch.zeros(size)
    orthogonal[rank] = rank + 1.0
    everything = torch.arange(1.0, size + 1)
    assert torch.allclose(hvd.allreduce(orthogonal, op=hvd.Adasum), everything)
    first, second = hvd.grouped_allreduce([torch.ones(3), orthogonal], op=hvd.Adasum)
    assert torch.allclose(first, torch.ones(3)) and torch.allclose(second, everything)
    assert hvd.allreduce(torch.zeros(3), op=hvd.Adasum).tolist() == [0.0] * 3


@case
def adasum_of_integers_is_refused() -> None:
    raises((ValueError, RuntimeError), lambda: hvd.allreduce(torch.tensor([1]), op=hvd.Adasum))


@case
def joined_ranks_contribute_nothing() -> None:
    size, rank = hvd.size(), hvd.rank()
    for _ in range(2):
        for step in range(rank + 1):  # rank r stops after r + 1 steps
            left = [r for r in range(size) if r >= step]
            total = hvd.allreduce(torch.full((3,), 2.0), op=hvd.Sum, name=f"step {step}")
            assert total.tolist() == [2.0 * len(left)] * 3
            average = hvd.allreduce(torch.full((2,), 3.0))
            assert torch.allclose(average, torch.full((2,), 3.0 * len(left) / size))
            highest = hvd.allreduce(torch.tensor([-5.0 - rank]), op=hvd.Max)
            assert highest.tolist() == [-5.0 - left[0]]
        hvd.barrier() if size == 1 else None
        assert hvd.join() == size - 1
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size] * 2


@case
def other_operations_fail_while_a_rank_has_joined() -> None:
    calls: list[Callable[[], object]] = [
        lambda: hvd.allgather(torch.ones(2)),
        lambda: hvd.broadcast(torch.ones(2), 0),
        lambda: hvd.alltoall(torch.ones(hvd.size())),
        lambda: hvd.reducescatter(torch.ones(hvd.size())),
    ]
    if hvd.rank() != hvd.size() - 1:
        for call in calls:
            raises((ValueError, hvd.HorovodInternalError), call)
    hvd.join()
    for call in calls:
        call()


@case
def join_checks_its_device() -> None:
    raises(TypeError, lambda: hvd.join("cpu"))
    raises(ValueError, lambda: hvd.join(-2))
    if torch.cuda.is_available():
        raises(ValueError, lambda: hvd.join(torch.cuda.device_count()))
    else:  # programs for GPUs run on hosts without one, too
        assert 0 <= hvd.join(hvd.local_rank()) < hvd.size()
    assert 0 <= hvd.join(device=-1) < hvd.size()


@case
def sparse_tensors_are_added_up() -> None:
    size, rank = hvd.size(), hvd.rank()
    dense = torch.zeros(size + 2, 2)
    dense[rank], dense[rank + 1] = 1.0, float(rank)
    every = []
    for r in range(size):
        one = torch.zeros(size + 2, 2)
        one[r], one[r + 1] = 1.0, float(r)
        every.append(one)
    total = torch.stack(every).sum(0)
    for kind in (dense.to_sparse(), dense.to_sparse(sparse_dim=1)):
        wait = hvd.sparse_allreduce_async(kind, name="sparse", op=hvd.Sum)
        same(wait().to_dense(), total)
        wait = hvd.sparse_allreduce_async(kind, None, hvd.Average)
        assert torch.allclose(wait().to_dense(), total / size)
    nothing = torch.zeros(3).to_sparse()
    assert hvd.sparse_allreduce_async(nothing, "none", hvd.Sum)().to_dense().tolist() == [0.0] * 3
    raises(ValueError, lambda: hvd.sparse_allreduce_async(nothing, "max", hvd.Max))
    raises(ValueError, lambda: hvd.sparse_allreduce_async(torch.ones(2), "dense", hvd.Sum))


@case
def compressed_tensors_travel_as_half_and_keep_their_type() -> None:
    size, rank = hvd.size(), hvd.rank()
    fp16 = hvd.Compression.fp16
    finer = torch.tensor([1.0 + 2.0**-12, 2.0])  # than half is
    for dtype in (torch.float32, torch.float64):
        result = hvd.allreduce(finer.to(dtype), op=hvd.Sum, compression=fp16)
        assert result.dtype == dtype and result.tolist() == [size, 2.0 * size]
    exact = hvd.allreduce(finer, op=hvd.Max, compression=hvd.Compression.none)
    assert torch.equal(exact, finer)
    tensors = [finer, finer.double(), torch.tensor([rank, 2049])]  # integers go as they are
    scales = {"prescale_factor": 2.0, "postscale_factor": 4.0}
    results = hvd.grouped_allreduce(tensors, op=hvd.Sum, compression=fp16, **scales)
    assert [one.dtype for one in results] == [one.dtype for one in tensors]
    for one in results[:2]:
        assert one.tolist() == [8.0 * size, 16.0 * size]
    assert results[2].tolist() == [8 * sum(range(size)), 8 * 2049 * size]


if __name__ == "__main__":
    hvd.init()
    print(f"world {hvd.rank()} {hvd.size()}\n", end="", flush=True)
    run()
