# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on a rank leaves nothing behind: names, tickets, optimizers, for 1 to 3 ranks."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from cases import case, raises, run

import horovod.torch as hvd
from horovod.common import operations
from horovod.common.library import library
from horovod.common.names import unnamed

MANY = unnamed.period + 400  # so many names come round


def take_by_poll(handles: list[int]) -> dict[int, torch.Tensor]:
    """Results in the order in which they are found, another one on each rank."""
    random.Random(hvd.rank()).shuffle(handles)
    results = {}
    while handles:
        ready = [handle for handle in handles if hvd.poll(handle)]
        results.update({handle: hvd.synchronize(handle) for handle in ready})
        handles = [handle for handle in handles if handle not in results]
    return results


def submit_many(count: int = MANY) -> list[int]:
    return [
        hvd.allreduce_async(torch.tensor([float(i), hvd.rank()]), op=hvd.Sum) for i in range(count)
    ]


def check_many(handles: list[int], results: dict[int, torch.Tensor]) -> None:
    size = hvd.size()
    for i, handle in enumerate(handles):
        assert results[handle].tolist() == [float(i * size), float(sum(range(size)))], i


@case
def more_unnamed_operations_than_names_give_right_sums() -> None:
    handles = submit_many(2 * unnamed.period + 100)
    check_many(handles, take_by_poll(list(handles)))


@case
def unnamed_operations_wait_for_nobody_while_names_are_taken() -> None:
    """Rank 0 submits everything before an operation that the others do first."""
    handles = submit_many() if hvd.rank() == 0 else []
    first = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="in between")
    assert first.item() == hvd.size()
    handles = handles or submit_many()
    check_many(handles, {handle: hvd.synchronize(handle) for handle in handles})


@case
def a_held_back_operation_is_submitted_while_another_one_is_waited_for() -> None:
    """Rank 0 waits for what the others do last; they wait for what rank 0 holds back."""
    if hvd.rank() == 0:
        handles = submit_many()
        hvd.barrier()
        last = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="at last")
    else:
        hvd.barrier()
        handles = submit_many()
        results = [hvd.synchronize(handle) for handle in handles]
        last = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="at last")
    assert last.item() == hvd.size()
    if hvd.rank() == 0:
        results = [hvd.synchronize(handle) for handle in handles]
    check_many(handles, dict(zip(handles, results, strict=True)))


@case
def polling_alone_submits_what_is_held_back() -> None:
    handles = submit_many()
    end = time.monotonic() + 60
    while not hvd.poll(handles[-1]):
        assert time.monotonic() < end
    check_many(handles, {handle: hvd.synchronize(handle) for handle in handles})


@case
def ranks_that_poll_and_ranks_that_wait_use_the_same_names() -> None:
    handles = []
    for i in range(unnamed.period + 50):
        handle = hvd.allreduce_async(torch.tensor(float(i)), op=hvd.Sum)
        if hvd.rank() % 2:
            assert hvd.synchronize(handle).item() == i * hvd.size()
        else:
            handles.append(handle)
    for i, handle in enumerate(handles):
        assert hvd.synchronize(handle).item() == i * hvd.size()


@case
def a_refused_unnamed_operation_takes_no_name() -> None:
    if hvd.rank() == 0:
        for _ in range(3):
            raises(ValueError, lambda: hvd.allgather(torch.tensor(1.0)))
            raises(ValueError, lambda: hvd.broadcast(torch.ones(1), hvd.size()))
    assert hvd.allgather(torch.ones(1)).shape == (hvd.size(),)
    assert hvd.broadcast(torch.ones(1), 0).item() == 1.0


def ticket_of(handle: int) -> int:
    from horovod.torch import submission

    return submission.calls.by_handle[handle].tickets[0]


def is_released(ticket: int) -> bool:
    return library.hvd_poll(operations._Process.handle, ticket) == operations.INVALID_ARGUMENT


@case
def tickets_are_released_after_shutdown() -> None:
    done = hvd.allreduce_async(torch.ones(3), op=hvd.Sum, name="done")
    while not hvd.poll(done):
        pass
    hvd.barrier()
    # No rank completes it: the last one does not take part.
    is_last = hvd.rank() == hvd.size() - 1
    pending = None if is_last else hvd.allreduce_async(torch.ones(3), name="pending")
    tickets = [ticket_of(one) for one in (done, pending) if one is not None]
    hvd.shutdown()
    assert hvd.poll(done)
    assert hvd.synchronize(done).tolist() == [hvd_size] * 3
    if pending is not None:
        raises(hvd.HorovodInternalError, lambda: hvd.synchronize(pending))
        assert hvd.synchronize(pending) is None
    assert all(is_released(ticket) for ticket in tickets)
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="pending").item() == hvd.size()


@case
def held_back_operations_end_with_their_world() -> None:
    handles = submit_many() if hvd.rank() == 0 and hvd.size() > 1 else []
    hvd.shutdown()
    if handles:
        raises(hvd.HorovodInternalError, lambda: hvd.synchronize(handles[-1]))
        raises(hvd.HorovodInternalError, lambda: hvd.synchronize(handles[0]))
    hvd.init()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@contextmanager
def refused_submits() -> Iterator[None]:
    """The library takes no gradients meanwhile."""
    real = library.hvd_submit
    library.hvd_submit = lambda *_: operations.INVALID_ARGUMENT
    yield
    library.hvd_submit = real


class Training:
    """A model with a distributed optimizer beside one that a single process would have."""

    def __init__(self, **options: object) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        self.single = copy.deepcopy(self.model)
        sgd = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.optimizer = hvd.DistributedOptimizer(sgd, self.model.named_parameters(), **options)
        self.plain = torch.optim.SGD(self.single.parameters(), lr=0.1)

    def backward(self, step: int) -> None:
        everything = torch.randn(hvd.size(), 4, generator=torch.Generator().manual_seed(step))
        self.model(everything[hvd.rank()]).square().sum().backward()
        (self.single(everything).square().sum() / hvd.size()).backward()

    def check_steps(self) -> None:
        """It trains as the single process does."""
        for step in range(2):
            self.optimizer.zero_grad(set_to_none=step == 0)
            self.plain.zero_grad()
            self.backward(step)
            self.optimizer.step()
            self.plain.step()
        for one, other in zip(self.model.parameters(), self.single.parameters(), strict=True):
            assert torch.allclose(one, other, rtol=0, atol=1e-6)


OPTIONS: list[dict[str, object]] = [{}, {"num_groups": 2}, {"backward_passes_per_step": 2}]


@case
def an_optimizer_works_after_a_backward_that_could_not_submit() -> None:
    for options in OPTIONS[:2]:
        training = Training(**options)
        if hvd.size() > 1:
            with refused_submits():
                raises(ValueError, lambda training=training: training.backward(0))
        training.check_steps()


@case
def an_optimizer_works_after_a_step_that_could_not_submit() -> None:
    for restarts in (False, True):
        for options in OPTIONS:
            training = Training(**options)
            with refused_submits():
                if hvd.size() > 1:
                    raises(ValueError, training.optimizer.step)
            if restarts:
                hvd.shutdown()
                hvd.init()
            if "backward_passes_per_step" in options:
                training.optimizer.set_backward_passes_per_step(1)
            training.check_steps()


@case
def an_optimizer_works_in_another_world_than_its_gradients() -> None:
    for options in OPTIONS[:2]:
        training = Training(**options)
        training.backward(0)
        hvd.shutdown()
        hvd.init()
        training.check_steps()


@case
def a_gradient_that_cannot_travel_leaves_the_others_alone() -> None:
    training = Training()

    class Broken(hvd.Compression.none):
        @staticmethod
        def compress(tensor: torch.Tensor) -> object:
            raise KeyError("the reason")

    if hvd.size() > 1:
        slots = training.optimizer._queue.slots.values()
        kept = [(slot, slot._reduction) for slot in slots]
        for slot, reduction in kept[-1:]:
            slot._reduction = copy.copy(reduction)
            object.__setattr__(slot._reduction, "compression", Broken)
        raises(KeyError, lambda: training.backward(0))
        for slot, reduction in kept:
            slot._reduction = reduction
        training.optimizer.synchronize()
    training.check_steps()


if __name__ == "__main__":
    hvd.init()
    hvd_size = hvd.size()
    torch.set_num_threads(1)
    print(f"world {hvd.rank()} {hvd.size()}\n", end="", flush=True)
    run()
