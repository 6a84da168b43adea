# SPDX-License-Identifier: Apache-2.0
"""Process sets, static and dynamic, for any number of ranks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from cases import case, raises, run

import horovod.torch as hvd


@contextmanager
def added(*lists: list[int]) -> Iterator[list[hvd.ProcessSet]]:
    """Sets that exist meanwhile; the world itself where all ranks are asked for."""
    sets = [
        hvd.global_process_set if len(ranks) == hvd.size() else hvd.add_process_set(ranks)
        for ranks in lists
    ]
    yield sets
    for one in sets:
        assert one is hvd.global_process_set or hvd.remove_process_set(one)


def ends() -> list[int]:
    """The first and the last rank."""
    return sorted({0, hvd.size() - 1})


@case
def static_sets_get_their_ids_in_order() -> None:
    hvd.shutdown()
    size = hvd_size
    last, others = hvd.ProcessSet([size - 1]), hvd.ProcessSet(range(size - 1))
    again = hvd.ProcessSet(range(size - 2, -1, -1))
    everybody = hvd.ProcessSet(range(size))
    assert last.size() is None and last.rank() is None and last.included() is None
    raises(ValueError, lambda: hvd.init(process_sets=[everybody]))
    if size > 1:
        raises(ValueError, lambda: hvd.init(process_sets=[last, others, again]))
    sets = [last, others] if size > 1 else []
    hvd.init(process_sets=sets)
    assert [one.process_set_id for one in sets] == list(range(1, len(sets) + 1))
    for one in sets:
        assert one.size() == len(one.ranks) and one.included() == (hvd.rank() in one.ranks)
        if one.included():
            assert one.rank() == one.ranks.index(hvd.rank())
            total = hvd.allreduce(torch.tensor(1.0), op=hvd.Sum, process_set=one)
            assert total.item() == one.size()
        else:
            raises(ValueError, one.rank)
    expected = {0: list(range(size)), **{one.process_set_id: one.ranks for one in sets}}
    assert hvd.mpi_ops._basics._get_process_set_ids_and_ranks() == expected
    mapped = hvd.ProcessSet(range(size - 1))
    if sets:
        hvd.init(process_sets=[mapped])
        assert mapped.process_set_id == others.process_set_id
    raises(ValueError, lambda: hvd.init(process_sets=[hvd.ProcessSet([size + 5])]))
    assert hvd.is_initialized()
    hvd.shutdown()
    assert last.process_set_id is None and mapped.included() is None
    hvd.init(process_sets="dynamic")


@case
def sets_that_are_not_dynamic_stay_as_they_are() -> None:
    hvd.shutdown()
    hvd.init()
    assert "dynamic" in raises(ValueError, lambda: hvd.add_process_set([hvd.size() - 1]))
    hvd.shutdown()
    hvd.init(process_sets="dynamic")


@case
def sets_come_and_go() -> None:
    size = hvd.size()
    raises(ValueError, lambda: hvd.add_process_set(range(size)))
    raises(ValueError, lambda: hvd.add_process_set([]))
    raises(ValueError, lambda: hvd.add_process_set([0, 0]))
    raises(ValueError, lambda: hvd.add_process_set([size]))
    if size == 1:
        return
    first = hvd.add_process_set([0])
    assert first.process_set_id == 1 and first.ranks == [0] and first.size() == 1
    raises(ValueError, lambda: hvd.add_process_set([0]))
    raises(ValueError, lambda: hvd.add_process_set(first))
    second = hvd.add_process_set(hvd.ProcessSet([size - 1]))
    assert second.process_set_id == 2
    assert hvd.remove_process_set(first) and first.process_set_id is None
    assert not hvd.remove_process_set(first)
    assert "belongs to no world" in raises(
        ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=first)
    )
    assert first.ranks == [0] and first.included() is None
    again = hvd.add_process_set(first)
    assert again is first and first.included() == (hvd.rank() == 0)
    for one in (first, second):
        assert hvd.remove_process_set(one)
    assert hvd.remove_process_set(hvd.global_process_set) is False


@case
def sets_wait_for_a_rank_that_is_late() -> None:
    """Later than a blocked rank looks for signals, which is twice a second."""
    late = hvd.rank() == hvd.size() - 1
    if hvd.size() == 1:
        return
    time.sleep(1.2 * late)
    made = hvd.add_process_set([0])
    assert made.ranks == [0]
    time.sleep(1.2 * late)
    assert hvd.remove_process_set(made)


@case
def every_operation_works_in_a_set() -> None:
    with added(ends()) as (both,):
        if not both.included():
            message = raises(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=both))
            assert f"rank {hvd.rank()} is not a member of process set" in message, message
            raises(ValueError, lambda: hvd.barrier(process_set=both))
            raises(ValueError, lambda: hvd.reducescatter(torch.ones(2), process_set=both))
            return
        rank, ranks, size = hvd.rank(), both.ranks, both.size()
        own = torch.full((2 * size,), float(rank + 1))
        total = float(sum(ranks) + size)
        reduce = {"op": hvd.Sum, "process_set": both}
        assert hvd.allreduce(own, process_set=both)[0].item() == total / size
        assert hvd.allreduce(own, **reduce)[0].item() == total
        assert hvd.grouped_allreduce([own, own], **reduce)[1][0].item() == total
        in_place = own.clone()
        hvd.allreduce_(in_place, **reduce)
        assert in_place[0].item() == total
        gathered = hvd.allgather(own[: rank + 1], process_set=both)
        assert gathered.tolist() == [r + 1.0 for r in ranks for _ in range(min(r + 1, 2 * size))]
        assert len(hvd.grouped_allgather([own, own], process_set=both)[0]) == 2 * size * size
        for root in ranks:
            assert hvd.broadcast(own, root, process_set=both)[0].item() == root + 1.0
        everyone = [r + 1.0 for r in ranks]
        assert hvd.alltoall(own[:size], process_set=both).tolist() == everyone
        splits = list(range(1, size + 1))
        output, received = hvd.alltoall(own.repeat(2), splits, process_set=both)
        assert received.tolist() == [both.rank() + 1] * size
        assert output.tolist() == [r + 1.0 for r in ranks for _ in range(both.rank() + 1)]
        assert hvd.reducescatter(own, **reduce).tolist() == [total] * 2
        assert hvd.grouped_reducescatter([own], **reduce)[0].tolist() == [total] * 2
        adasum = hvd.allreduce(torch.ones(3), op=hvd.Adasum, process_set=both)
        assert torch.allclose(adasum, torch.ones(3))
        sparse = hvd.sparse_allreduce_async(own.to_sparse(), "s", hvd.Average, process_set=both)
        assert torch.allclose(sparse().to_dense(), torch.full((2 * size,), total / size))
        assert hvd.broadcast_object(rank, ranks[-1], process_set=both) == ranks[-1]
        hvd.barrier(process_set=both)


@case
def roots_outside_of_a_set_are_value_errors() -> None:
    if hvd.size() == 1:
        return
    with added([0]) as (first,):
        if first.included():
            raises(ValueError, lambda: hvd.broadcast(torch.ones(1), 1, process_set=first))


@case
def sets_overlap_and_have_names_of_their_own() -> None:
    size, rank = hvd.size(), hvd.rank()
    lists = [ranks for ranks in (ends(), list(range(size - 1))) if 0 < len(ranks) < size]
    with added(*lists) as sets:
        mine = [one for one in (*sets, hvd.global_process_set) if one.included()]
        order = mine if rank % 2 else mine[::-1]
        handles = [
            (one, hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="same", process_set=one))
            for one in order
        ]
        for one, handle in handles:
            assert hvd.synchronize(handle).tolist() == [one.size()] * 2
        for _ in range(3):  # unnamed operations are counted for each set
            for one in mine:
                total = hvd.allreduce(torch.tensor(1.0), op=hvd.Sum, process_set=one)
                assert total.item() == one.size()


@case
def an_id_that_is_used_again_starts_with_new_names() -> None:
    size = hvd.size()
    if size < 3:
        return
    for ranks in ([0, 1], [1, 2]):
        with added(ranks) as (one,):
            for _ in range(ranks[0] + 2):
                if one.included():
                    total = hvd.allreduce(torch.tensor(1.0), op=hvd.Sum, process_set=one)
                    assert total.item() == 2


@case
def gradients_flow_within_a_set() -> None:
    with added(ends()) as (both,):
        if not both.included():
            return
        size, place = both.size(), both.rank()
        x = torch.ones(place + 1, requires_grad=True)
        out = hvd.allgather(x, process_set=both)
        out.mul(torch.arange(float(len(out)))).sum().backward()
        assert x.grad.tolist() == [[0.0], [1.0, 2.0]][place]
        x = torch.ones(2, requires_grad=True)
        hvd.allreduce(x, op=hvd.Sum, process_set=both).sum().backward()
        assert x.grad.tolist() == [size] * 2
        x = torch.ones(2, requires_grad=True)
        root = both.ranks[-1]
        hvd.broadcast(x, root, process_set=both).sum().backward()
        assert x.grad.tolist() == [1.0 if hvd.rank() == root else 0.0] * 2
        x = torch.ones(size, requires_grad=True)
        hvd.reducescatter(x, op=hvd.Sum, process_set=both).sum().backward()
        assert x.grad.tolist() == [size] * size
        x = torch.ones(size, requires_grad=True)
        hvd.alltoall(x, process_set=both).mul(place + 1.0).sum().backward()
        assert x.grad.tolist() == [r + 1.0 for r in range(size)]


@case
def optimizers_of_two_sets_train_apart() -> None:
    size, rank = hvd.size(), hvd.rank()
    lists = [[r for r in range(size) if r % 2 == odd] for odd in (0, 1)]
    lists = [ranks for ranks in lists if ranks]
    with added(*lists) as sets:
        own = sets[rank % 2] if size > 1 else sets[0]
        for op in (hvd.Average, hvd.Adasum):
            model = torch.nn.Linear(2, 1, bias=False)
            torch.nn.init.ones_(model.weight)
            base = torch.optim.SGD(model.parameters(), lr=1.0)
            optimizer = hvd.DistributedOptimizer(
                base, model.named_parameters(), op=op, process_set=own
            )
            model(torch.full((1, 2), rank + 1.0)).sum().backward()
            optimizer.step()
            weights = {
                r: w for w in hvd.allgather_object((rank, model.weight.tolist())) for r in w[:1]
            }
            same = [weights[r] for r in own.ranks]
            assert all(one[1] == same[0][1] for one in same), weights
            if op == hvd.Average:
                mean = sum(r + 1.0 for r in own.ranks) / len(own.ranks)
                assert torch.allclose(model.weight, torch.full((1, 2), 1.0 - mean))


@case
def a_rank_outside_trains_alone() -> None:
    if hvd.size() == 1:
        return
    with added([0]) as (first,):
        model = torch.nn.Linear(1, 1)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0), process_set=first
        )
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


OPERATIONS = {"allreduce", "allgather", "broadcast", "barrier", "alltoall", "reducescatter"}


@case
def metrics_count_by_process_set_and_operation() -> None:
    with added([hvd.size() - 1]) as [last]:
        number = last.process_set_id
        before = hvd.metrics()
        hvd.grouped_allreduce([torch.ones(5), torch.ones(7)], op=hvd.Sum)
        hvd.allgather(torch.ones(3, dtype=torch.float64))
        if last.included():
            hvd.alltoall(torch.ones(4), process_set=last)
        after = hvd.metrics()

        def rises(operation: str, field: str, number: int = 0) -> int:
            earlier = before.get(number, {}).get(operation, {}).get(field, 0)
            return after[number][operation][field] - earlier

        assert (rises("allreduce", "operations"), rises("allreduce", "bytes")) == (2, 48), after
        assert rises("allreduce", "collectives") == 1, after
        assert rises("allreduce", "timed") == 1 and rises("allreduce", "wire_ns") > 0, after
        assert after[0]["allreduce"]["largest"] >= 48, after
        assert (rises("allgather", "operations"), rises("allgather", "bytes")) == (1, 24), after
        assert ("alltoall" in after.get(number, {})) == last.included(), after
        assert not last.included() or rises("alltoall", "bytes", number) == 16, after
        assert all(set(one) <= OPERATIONS for one in after.values()), after
    assert number == 0 or number not in hvd.metrics()


@case
def metrics_name_the_rank_that_comes_last() -> None:
    late = hvd.size() - 1
    for step in range(4):
        if hvd.rank() == late:
            time.sleep(0.05)
        handle = hvd.allreduce_async(torch.ones(3), op=hvd.Sum, name=f"late.{step % 2}")
        time.sleep(0.01)  # the engine takes it up: a caller that waits might, and measure nothing
        hvd.synchronize(handle)
        hvd.barrier()
    figures = hvd.metrics()[0]["allreduce"]
    assert sum(one["times"] for one in figures["arrivals"].values()) <= figures["waits"], figures
    if hvd.size() > 1 and hvd.rank() != late:
        arrivals = figures["arrivals"][late]
        assert arrivals["times"] > 0 and arrivals["wait_ns"] > 0, figures


if __name__ == "__main__":
    hvd.init(process_sets="dynamic")
    hvd_size = hvd.size()
    torch.set_num_threads(1)
    print(f"world {hvd.rank()} {hvd.size()}\n", end="", flush=True)
    run()
