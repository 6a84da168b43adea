# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm, Adasum optimizers, sparse gradients, shared states and elastic states."""

from __future__ import annotations

import copy
import queue
from collections.abc import Iterator

import torch
from cases import case, raises, run
from torch import nn

import horovod.torch as hvd
from horovod.common.elastic import ObjectState
from horovod.common.exceptions import HostsUpdatedInterrupt
from horovod.torch.elastic import ElasticSampler, TorchState
from horovod.torch.elastic.state import (
    StateHandler,
    get_handler_registry,
    set_handler_registry,
)


def is_same_everywhere(tensor: torch.Tensor) -> bool:
    everywhere = hvd.allgather(tensor.detach().reshape(1, -1))
    return torch.equal(everywhere, everywhere[:1].expand_as(everywhere))


def near(one: torch.Tensor, other: torch.Tensor, tolerance: float = 2e-5) -> None:
    assert torch.allclose(one, other, rtol=0, atol=tolerance), (one - other).abs().max()


def own_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Rank r has r + 2 rows of what all ranks have together."""
    first = sum(r + 2 for r in range(hvd.rank()))
    return tensor[first : first + hvd.rank() + 2]


def all_rows(*shape: int) -> torch.Tensor:
    count = sum(r + 2 for r in range(hvd.size()))
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1)) * 3 + 100


def check_batch_norm(single: nn.Module, shape: tuple[int, ...]) -> None:
    """A layer over the ranks' batches is one process's over the joined batch, in outputs,
    gradients and statistics."""
    if single.affine:
        nn.init.normal_(single.weight, generator=torch.Generator().manual_seed(2))
        nn.init.normal_(single.bias, generator=torch.Generator().manual_seed(3))
    layer = hvd.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(single))
    assert isinstance(layer, hvd.SyncBatchNorm)
    for _ in range(2):
        everything = all_rows(*shape)
        factors = torch.randn(everything.shape, generator=torch.Generator().manual_seed(4))
        joined = everything.clone().requires_grad_(True)
        own = own_rows(everything).clone().requires_grad_(True)
        expected, output = single(joined), layer(own)
        near(output, own_rows(expected))
        (expected * factors).sum().backward()
        (output * own_rows(factors)).sum().backward()
        near(own.grad, own_rows(joined.grad))
    if single.affine:
        near(hvd.allreduce(layer.weight.grad, op=hvd.Sum), single.weight.grad, 1e-4)
        near(hvd.allreduce(layer.bias.grad, op=hvd.Sum), single.bias.grad, 1e-4)
    if single.track_running_stats:
        near(layer.running_mean, single.running_mean, 1e-4)
        near(layer.running_var, single.running_var, 1e-4)
        assert layer.num_batches_tracked.item() == single.num_batches_tracked.item() == 2
    layer.eval()
    single.eval()
    if single.track_running_stats:
        near(layer(own), single(own), 1e-4)


@case
def batch_norm_sees_the_joined_batch() -> None:
    check_batch_norm(nn.BatchNorm1d(3), (3,))
    check_batch_norm(nn.BatchNorm1d(3, momentum=None), (3, 5))
    check_batch_norm(nn.BatchNorm2d(3, eps=1e-3, affine=False), (3, 2, 2))
    check_batch_norm(nn.BatchNorm3d(2, momentum=0.3, track_running_stats=False), (2, 1, 2, 2))


@case
def batch_norm_has_the_arguments_of_the_original() -> None:
    layer = hvd.SyncBatchNorm(4, 1e-3, 0.2, False, False)
    assert layer.eps == 1e-3 and layer.momentum == 0.2
    assert layer.weight is None and layer.running_mean is None
    raises(ValueError, lambda: layer(torch.ones(4)))
    half = hvd.SyncBatchNorm(2)(torch.randn(4, 2).bfloat16())
    assert half.dtype == torch.bfloat16
    ended = torch.empty(0, 2) if hvd.rank() == 0 and hvd.size() > 1 else torch.ones(2, 2)
    assert hvd.SyncBatchNorm(2)(ended).shape == ended.shape


@case
def models_are_converted_with_parameters_and_statistics() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.Sequential(nn.BatchNorm2d(3)), nn.BatchNorm2d(3))
    model(torch.randn(4, 1, 2, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = list(model.parameters())
    converted = hvd.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model and isinstance(model[1][0], hvd.SyncBatchNorm)
    assert isinstance(model[2], hvd.SyncBatchNorm)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))


def make_layers() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    )


@case
def a_model_with_batch_norm_trains_as_one_process() -> None:
    size, rank = hvd.size(), hvd.rank()
    single = make_layers()
    model = hvd.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(single))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters()
    )
    plain = torch.optim.SGD(single.parameters(), lr=0.05)
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        images = torch.randn(4 * size, 1, 4, 4, generator=generator)
        labels = torch.randint(3, (4 * size,), generator=generator)
        here = slice(4 * rank, 4 * rank + 4)
        losses = []
        for net, batch in ((single, slice(None)), (model, here)):
            losses.append(nn.functional.cross_entropy(net(images[batch]), labels[batch]))
            losses[-1].backward()
        near(hvd.allreduce(losses[1].detach()), losses[0].detach())
        for one in (optimizer, plain):
            one.step()
            one.zero_grad()
    for one, other in zip(model.parameters(), single.parameters(), strict=True):
        near(one, other)


def embedding_model() -> nn.Module:
    torch.manual_seed(6)
    return nn.Sequential(nn.Embedding(10, 3, sparse=True), nn.Linear(3, 1))


def train_embedding(as_dense: bool, op: int, factor: float) -> None:
    model = embedding_model()
    single = copy.deepcopy(model)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        model.named_parameters(),
        sparse_as_dense=as_dense,
        op=op,
    )
    plain = torch.optim.SGD(single.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        plain.zero_grad()
        words = [torch.tensor([r, r + 1, step]) for r in range(hvd.size())]
        # Rank 0 has no words in the last step.
        if step < 2 or hvd.rank() > 0:
            model(words[hvd.rank()]).sum().backward()
        used = words if step < 2 else words[1:]
        if used:
            (single(torch.cat(used)).sum() * factor).backward()
        optimizer.synchronize()
        with optimizer.skip_synchronize():
            optimizer.step()
        plain.step()
    for one, other in zip(model.parameters(), single.parameters(), strict=True):
        near(one, other)


@case
def sparse_gradients_are_combined() -> None:
    for as_dense in (False, True):
        train_embedding(as_dense, hvd.Average, 1.0 / hvd.size())
        train_embedding(as_dense, hvd.Sum, 1.0)


@case
def sparse_gradients_that_travel_as_dense_ones_are_sparse_again() -> None:
    torch.manual_seed(6)
    embedding = nn.Embedding(10, 3, sparse=True)
    single = copy.deepcopy(embedding)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SparseAdam(list(embedding.parameters()), lr=0.1), sparse_as_dense=True
    )
    plain = torch.optim.SparseAdam(list(single.parameters()), lr=0.1)
    for step in range(3):
        words = [torch.tensor([r, r + 1, step]) for r in range(hvd.size())]
        used = words if step < 2 else words[:1]  # rank 0 alone has words in the last step
        optimizer.zero_grad()
        plain.zero_grad()
        if hvd.rank() < len(used):
            embedding(words[hvd.rank()]).square().sum().backward()
        (single(torch.cat(used)).square().sum() / hvd.size()).backward()
        optimizer.step()
        plain.step()
        assert embedding.weight.grad.layout == torch.sparse_coo
    near(embedding.weight, single.weight)


@case
def sparse_gradients_are_compressed() -> None:
    embedding = nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(embedding.parameters(), lr=1.0),
        compression=hvd.Compression.fp16,
        op=hvd.Sum,
    )
    (embedding(torch.tensor([1])).sum() * (1.0 + 2.0**-20)).backward()
    optimizer.synchronize()
    gradient = embedding.weight.grad.to_dense()
    assert gradient.dtype == torch.float32
    assert hvd.size() == 1 or gradient[1].tolist() == [hvd.size()] * 2


def adasum_training(**options: object) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(8)
    model = nn.Linear(4, 2)
    base = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return model, hvd.DistributedOptimizer(base, model.named_parameters(), op=hvd.Adasum, **options)


@case
def adasum_optimizers_combine_steps() -> None:
    for options in ({}, {"groups": 1}, {"compression": hvd.Compression.fp16}):
        model, optimizer = adasum_training(**options)
        for step in range(3):
            optimizer.zero_grad()
            # Ranks with the same gradients step as one of them.
            model(torch.full((1, 4), float(step + 1))).sum().backward()
            optimizer.step()
        single = nn.Linear(4, 2)
        torch.manual_seed(8)
        single.reset_parameters()
        plain = torch.optim.SGD(single.parameters(), lr=0.5, momentum=0.9)
        for step in range(3):
            plain.zero_grad()
            single(torch.full((1, 4), float(step + 1))).sum().backward()
            plain.step()
        near(model.weight, single.weight, 1e-1 if "compression" in options else 1e-4)
        assert is_same_everywhere(model.weight) and is_same_everywhere(model.bias)


@case
def adasum_steps_that_are_orthogonal_add_up() -> None:
    size, rank = hvd.size(), hvd.rank()
    weight = nn.Parameter(torch.zeros(size))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Adasum)
    for _ in range(2):
        optimizer.zero_grad()
        weight[rank].backward()
        optimizer.step()
    near(weight.detach(), torch.full((size,), -2.0), 1e-6)


@case
def adasum_optimizers_have_their_own_rules() -> None:
    if hvd.size() == 1:
        return
    model, optimizer = adasum_training(backward_passes_per_step=2)
    assert type(optimizer).__name__ == "SGD" and isinstance(optimizer, torch.optim.SGD)
    optimizer.synchronize()
    raises(AssertionError, optimizer.skip_synchronize)
    for _ in range(2):
        model(torch.ones(1, 4)).sum().backward()
    third = model(torch.ones(1, 4)).sum()
    assert "backward_passes_per_step" in raises(AssertionError, third.backward)
    optimizer.step()
    optimizer.set_backward_passes_per_step(1)
    optimizer.load_state_dict(optimizer.state_dict())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()


@case
def a_scaler_lets_no_rank_make_an_adasum_step_that_overflowed_on_one() -> None:
    model, optimizer = adasum_training()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = model.weight.detach().clone()
    factor = float("inf") if hvd.rank() == 0 else 1.0
    scaler.scale(model(torch.ones(1, 4)).sum() * factor).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight, before) and scaler.get_scale() == 2.0


def kinds_of_optimizers() -> Iterator[type[torch.optim.Optimizer]]:
    for name in ("SGD", "Adam", "Adagrad", "Adafactor", "LBFGS", "RMSprop", "SparseAdam"):
        if hasattr(torch.optim, name):
            yield getattr(torch.optim, name)


@case
def states_with_frozen_parameters_are_broadcast() -> None:
    for kind in kinds_of_optimizers():
        for steps in (False, True):
            torch.manual_seed(hvd.rank())
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            model[0].requires_grad_(False)
            model[1].bias.requires_grad_(False)
            optimizer = kind(model.parameters(), lr=0.1 * (hvd.rank() + 1))
            if steps and kind is not torch.optim.SparseAdam:
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step(lambda: 0.0)
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            states = set(hvd.allgather_object(str(optimizer.state_dict())))
            assert len(states) == 1, (kind, steps, states)


@case
def states_of_ranks_that_have_not_stepped_are_broadcast_with_entries_that_are_none() -> None:
    root = hvd.size() - 1
    for kind, options in (
        (torch.optim.SGD, {}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.LBFGS, {"history_size": 2}),
    ):
        torch.manual_seed(9)
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        model[0].weight.requires_grad_(False)
        optimizer = kind(model.parameters(), lr=0.1, **options)
        if hvd.rank() == root:
            for _ in range(2):
                model(torch.ones(1, 2)).square().sum().backward()
                optimizer.step(lambda model=model: model(torch.ones(1, 2)).square().sum())
            if not optimizer.state:  # PyTorch once left this where there is no momentum
                optimizer.state[model[1].weight]["momentum_buffer"] = None
        hvd.broadcast_optimizer_state(optimizer, root_rank=root)
        states = set(hvd.allgather_object(str(optimizer.state_dict())))
        assert len(states) == 1, (kind, options, states)
        assert optimizer.state, (kind, options)
        if kind is not torch.optim.SGD or options:
            assert "tensor" in states.pop(), (kind, options)
        else:
            assert "None" in states.pop()
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step(lambda: 0.0)


@case
def the_state_of_an_optimizer_is_broadcast_with_its_model() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=hvd.rank() + 1.0)
    hvd.broadcast_optimizer_state(optimizer, hvd.size() - 1, model)
    assert optimizer.param_groups[0]["lr"] == hvd.size()
    raises(TypeError, lambda: hvd.broadcast_optimizer_state(optimizer, 0, model=optimizer))


@case
def an_optimizer_that_has_no_state_has_gradients_after_its_broadcast() -> None:
    """Zeros, as the original leaves them; those that are there stay."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].weight.requires_grad_(False)
    model[1].bias.grad = torch.ones(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    before = [one.detach().clone() for one in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert all(map(torch.equal, before, model.parameters()))
    gradients = [one.grad if one.grad is None else one.grad.sum() for one in model.parameters()]
    assert gradients == [None, 0.0, 0.0, 2.0], gradients


class Data(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> int:
        return index


@case
def samplers_share_out_what_is_left() -> None:
    size = hvd.size()
    sampler = ElasticSampler(Data(), shuffle=False)
    share = -(-11 // size)
    assert len(sampler) == share
    expected = [(hvd.rank() + size * i) % 11 for i in range(share)]
    assert list(sampler) == list(sampler) == expected
    sampler.record_batch(0, 2)
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 2 * size}
    assert list(sampler) == expected  # of this epoch, until reset
    other = ElasticSampler(Data(), shuffle=False)
    other.load_state_dict(sampler.state_dict())
    left = range(min(2 * size, 11), 11)
    assert sorted({i for one in hvd.allgather_object(list(other)) for i in one}) == list(left)
    assert len(other) == -(-len(left) // size)
    sampler.set_epoch(1)
    assert list(sampler) == expected
    shuffled = ElasticSampler(Data(), seed=3)
    orders = []
    for epoch in (0, 1, 0):
        shuffled.set_epoch(epoch)
        orders.append(hvd.allgather_object(list(shuffled)))
    assert orders[0] == orders[2] != orders[1]
    assert {i for one in orders[0] for i in one} == set(range(11))
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, sampler=shuffled)
    assert sum(len(batch) for batch in loader) == share
    shuffled.processed_num = 100
    shuffled.reset()
    assert len(shuffled) == 0 and list(shuffled) == []


@case
def states_are_synchronized_saved_and_restored() -> None:
    torch.manual_seed(hvd.rank())
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (hvd.rank() + 1), momentum=0.9)
    state = TorchState(
        model=model, optimizer=optimizer, batch=20 + hvd.rank(), epoch=[10 + hvd.rank()]
    )
    assert state.model is model and state.batch == 20 + hvd.rank()
    state.sync()
    assert is_same_everywhere(model.weight) and optimizer.param_groups[0]["lr"] == 0.1
    assert (state.batch, state.epoch) == (20, [10])
    synchronized = model.weight.detach().clone()

    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state.batch = 21
    state.epoch.append(11)
    state.restore()
    assert torch.equal(model.weight, synchronized) and (state.batch, state.epoch) == (20, [10])
    assert not optimizer.state_dict()["state"]

    model.weight.grad = torch.ones_like(model.weight)
    optimizer.step()
    state.batch = 22
    state.commit()
    stepped = model.weight.detach().clone()
    optimizer.step()
    state.batch = 23
    state.restore()
    assert torch.equal(model.weight, stepped) and state.batch == 22
    assert len(optimizer.state_dict()["state"]) > 0

    another = nn.Linear(2, 2)
    state.model = another
    with torch.no_grad():
        another.weight.zero_()
    state.restore()
    assert state.model is another and not torch.equal(another.weight, torch.zeros(2, 2))


@case
def states_may_hold_samplers_and_anything_else() -> None:
    sampler = ElasticSampler(Data(), shuffle=False)
    state = TorchState(sampler=sampler, extra=None)
    assert state.model is None and state.optimizer is None and state.extra is None
    sampler.record_batch(0, 1)
    state.commit()
    sampler.record_batch(1, 1)
    state.restore()
    assert sampler.processed_num == hvd.size()
    if hvd.rank() == 0:
        sampler.set_epoch(5)
    state.sync()
    assert sampler.epoch == 5
    calls = []
    state.register_reset_callbacks([lambda: calls.append(1)])
    state.on_reset()
    assert calls == [1]


@case
def handlers_may_be_registered() -> None:
    class Counter:
        value = 0

    class CounterHandler(StateHandler):
        def save(self) -> None:
            self.saved = self.value.value

        def restore(self) -> None:
            self.value.value = self.saved

        def sync(self) -> None:
            self.value.value = hvd.broadcast_object(self.value.value)
            self.save()

    before = get_handler_registry()
    set_handler_registry([*before, (Counter, CounterHandler)])
    state = TorchState(counter=Counter())
    state.counter.value = hvd.rank() + 1
    state.sync()
    assert state.counter.value == 1
    state.counter.value = 9
    state.restore()
    assert state.counter.value == 1
    set_handler_registry(before)


@case
def changed_hosts_interrupt_all_ranks() -> None:
    state = ObjectState(hvd.broadcast_object, hvd.rank, step=1)
    state.check_host_updates()
    assert isinstance(state._host_messages, queue.Queue)
    for kind, skips in ((1, True), (2, False), (3, False)):
        if hvd.rank() == 0:
            state.on_hosts_updated(state._last_updated_timestamp + 1, kind)
        state.step += 1
        try:
            state.commit()
        except HostsUpdatedInterrupt as interrupt:
            assert interrupt.skip_sync is skips
        else:
            raise AssertionError("no interrupt")
        state.step = 0
        state.restore()
    assert state.step == 4


@case
def elastic_jobs_do_not_exist_yet() -> None:
    message = raises(NotImplementedError, lambda: hvd.elastic.run(print))
    assert "elastic" in message and "horovodrun" in message


if __name__ == "__main__":
    hvd.init()
    torch.set_num_threads(1)
    print(f"world {hvd.rank()} {hvd.size()}\n", end="", flush=True)
    run()
