# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer and what brings ranks to one state, for any number of ranks."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
import os
import warnings
from collections.abc import Callable

import torch
from cases import case, raises, run
from torch.utils.data import DataLoader, Dataset

import horovod.torch as hvd
from horovod.common.basics import basics

ROWS = 4  # of each rank


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3)
    )


def joined_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The images and labels of all ranks."""
    generator = torch.Generator().manual_seed(step)
    count = ROWS * hvd.size()
    images = torch.randn(count, 1, 8, 8, generator=generator)
    return images, torch.randint(3, (count,), generator=generator)


def own_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = joined_batch(step)
    here = slice(ROWS * hvd.rank(), ROWS * (hvd.rank() + 1))
    return images[here], labels[here]


def loss_of(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def agree(model: torch.nn.Module, single: torch.nn.Module, tolerance: float = 1e-6) -> None:
    for (name, one), (_, other) in zip(
        model.named_parameters(), single.named_parameters(), strict=True
    ):
        assert torch.allclose(one, other, rtol=0, atol=tolerance), (
            name,
            (one - other).abs().max(),
        )


def train_beside_single(tolerance: float = 1e-6, passes: int = 1, **options: object) -> None:
    """Trains on this rank's share beside a single process on the joined batch."""
    model = make_model()
    single = copy.deepcopy(model)
    optimizer = hvd.DistributedOptimizer(
        sgd(model), model.named_parameters(), backward_passes_per_step=passes, **options
    )
    plain = sgd(single)
    for step in range(4):
        for turn in range(passes):
            (loss_of(model, own_batch(10 * step + turn)) / passes).backward()
            (loss_of(single, joined_batch(10 * step + turn)) / passes).backward()
        optimizer.synchronize()
        for one, other in zip(model.parameters(), single.parameters(), strict=True):
            assert torch.allclose(one.grad, other.grad, rtol=0, atol=tolerance)
        with optimizer.skip_synchronize():
            optimizer.step()
        plain.step()
        optimizer.zero_grad()
        plain.zero_grad()
        agree(model, single, tolerance)


@case
def gradients_equal_those_of_the_joined_batch() -> None:
    train_beside_single()


def curve(
    wrap: Callable[[torch.optim.Optimizer], torch.optim.Optimizer],
    batch_of: Callable[[int], tuple[torch.Tensor, torch.Tensor]],
) -> torch.Tensor:
    """The loss of every step."""
    model = make_model()
    optimizer = wrap(sgd(model))
    losses = []
    for step in range(12):
        optimizer.zero_grad()
        loss = loss_of(model, batch_of(step % 3))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@case
def the_loss_of_every_step_is_that_of_one_process_with_the_joined_batch() -> None:
    single = curve(lambda optimizer: optimizer, joined_batch)
    assert single[-1] < single[0] / 2, single
    ours = curve(hvd.DistributedOptimizer, own_batch)
    assert torch.allclose(hvd.allreduce(ours), single, rtol=1e-5), (ours, single)


@case
def passes_accumulate_before_the_sum() -> None:
    train_beside_single(passes=3)


@case
def predividing_changes_nothing_but_rounding() -> None:
    train_beside_single(gradient_predivide_factor=2.0)
    train_beside_single(gradient_predivide_factor=2.0, num_groups=2)


@case
def groups_change_nothing() -> None:
    train_beside_single(num_groups=2)
    train_beside_single(groups=1)
    model = make_model()
    parameters = list(model.parameters())
    groups = [parameters[2:], parameters[:1]]
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters(), groups=groups)
    loss_of(model, own_batch(0)).backward()
    optimizer.step()


@case
def compression_rounds_to_half() -> None:
    train_beside_single(tolerance=5e-3, compression=hvd.Compression.fp16)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), compression=hvd.Compression.fp16)
    loss_of(model, own_batch(0)).backward()
    optimizer.synchronize()
    for parameter in model.parameters():
        assert parameter.grad.dtype == torch.float32
        if hvd.size() > 1:
            assert torch.equal(parameter.grad, parameter.grad.half().float())


@case
def wide_gradients_are_rounded_whatever_their_type_and_place() -> None:
    """Also those of a compressor of the program, and of one that is called for other types."""

    class Own(hvd.Compression.fp16):
        pass

    finer = 1.0 + 2.0**-12  # than a half can be
    for compression in (hvd.Compression.fp16, Own):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            parameter = torch.nn.Parameter(torch.ones(3, 2, dtype=dtype))
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD([parameter], lr=1.0),
                [(f"parameter.{compression.__name__}.{dtype}", parameter)],
                compression=compression,
            )
            (parameter.t() * finer).sum().backward()
            optimizer.synchronize()
            rounded = torch.ones(3, 2, dtype=dtype) * (finer if hvd.size() == 1 else 1)
            assert torch.equal(parameter.grad, rounded), (compression, dtype, parameter.grad)


@case
def channels_last_models_train() -> None:
    model = make_model().to(memory_format=torch.channels_last)
    single = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    plain = sgd(single)
    images, labels = own_batch(1)
    loss_of(model, (images.to(memory_format=torch.channels_last), labels)).backward()
    loss_of(single, joined_batch(1)).backward()
    optimizer.step()
    plain.step()
    agree(model, single, 1e-5)


@case
def bfloat16_models_train() -> None:
    model = make_model().bfloat16()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    images, labels = own_batch(1)
    loss_of(model, (images.bfloat16(), labels)).backward()
    optimizer.step()
    weights = hvd.allgather(model[0].weight.detach().flatten().unsqueeze(0))
    assert torch.equal(weights, weights[:1].expand_as(weights))


@case
def the_class_is_that_of_the_user() -> None:
    class Special(torch.optim.Adam):
        def __init__(self, parameters: object, needed: int) -> None:
            super().__init__(parameters, lr=0.5)
            self.needed = needed

    optimizer = hvd.DistributedOptimizer(Special(make_model().parameters(), needed=3))
    assert type(optimizer).__name__ == "Special" and isinstance(optimizer, Special)
    assert optimizer.needed == 3 and optimizer.param_groups[0]["lr"] == 0.5
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    optimizer.step()
    scheduler.step()
    assert abs(optimizer.param_groups[0]["lr"] - 0.05) < 1e-12


@case
def schedulers_made_before_wrapping_still_work() -> None:
    model = make_model()
    base = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(base, 1, gamma=0.1)
    optimizer = hvd.DistributedOptimizer(base, model.named_parameters())
    for given in (optimizer, base):
        hvd.broadcast_optimizer_state(given, root_rank=0)
        loss_of(model, own_batch(hvd.rank())).backward()
        optimizer.step()
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler.step()
    assert abs(optimizer.param_groups[0]["lr"] - 0.001) < 1e-12
    assert optimizer.state is base.state
    weights = hvd.allgather(model[0].weight.detach().flatten().unsqueeze(0))
    assert torch.equal(weights, weights[:1].expand_as(weights))


@case
def step_hooks_run_once_on_combined_gradients() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    seen: list[float] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(model.weight.grad.item()))
    optimizer.register_step_post_hook(lambda *_: seen.append(model.weight.grad.item()))
    model(torch.full((1, 1), float(hvd.rank()))).sum().backward()
    optimizer.step()
    assert seen == [(hvd.size() - 1) / 2] * 2, seen


@case
def wrong_arguments_are_value_errors() -> None:
    model = make_model()
    wrap = hvd.DistributedOptimizer
    named = list(model.named_parameters())
    assert "tuples" in raises(ValueError, lambda: wrap(sgd(model), model.parameters()))
    assert "duplicates: 0.bias" in raises(
        ValueError, lambda: wrap(sgd(model), [*named, ("0.bias", torch.ones(1))])
    )
    assert "not named" in raises(ValueError, lambda: wrap(sgd(model), named[1:]))
    raises(ValueError, lambda: wrap(sgd(model), named, backward_passes_per_step=0))
    raises(ValueError, lambda: wrap(sgd(model), named, op=hvd.Sum, gradient_predivide_factor=2.0))
    raises(ValueError, lambda: wrap(sgd(model), named, groups=-1))
    raises(ValueError, lambda: wrap(sgd(model), named, groups="all"))


@case
def misuse_is_an_assertion_error() -> None:
    if hvd.size() == 1:
        return
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    loss_of(model, own_batch(0)).backward()
    assert "race condition" in raises(AssertionError, optimizer.zero_grad)
    again = loss_of(model, own_batch(0))
    assert "backward_passes_per_step" in raises(AssertionError, again.backward)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert model[0].bias.grad.tolist() == [0.0] * 4
    loss_of(model, own_batch(0)).backward()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("skip_synchronize" in str(one.message) for one in caught)


@case
def missing_gradients_count_as_zeros() -> None:
    model = torch.nn.ModuleList([torch.nn.Linear(2, 1, bias=False) for _ in range(2)])
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), 0)
    before = model[1].weight.detach().clone()
    used = 1 if hvd.rank() == 0 else 0  # rank 0 alone uses the second layer
    model[used](torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert torch.allclose(before - model[1].weight, torch.full((1, 2), 1.0 / hvd.size()))


@case
def parameters_unfrozen_or_added_later_are_reduced() -> None:
    model = make_model()
    model[0].requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    loss_of(model, own_batch(0)).backward()
    optimizer.step()
    optimizer.zero_grad()
    model[0].requires_grad_(True)
    extra = torch.nn.Parameter(torch.zeros(3))
    optimizer.add_param_group({"params": [extra]})
    for step in range(2):
        (loss_of(model, own_batch(step)) + (extra * hvd.rank()).sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
    for tensor in (model[0].weight, model[3].bias, extra):
        everywhere = hvd.allgather(tensor.detach().flatten().unsqueeze(0))
        assert torch.equal(everywhere, everywhere[:1].expand_as(everywhere))


@case
def closures_are_synchronized_each_time() -> None:
    model = make_model()
    single = copy.deepcopy(model)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4), model.named_parameters()
    )
    plain = torch.optim.LBFGS(single.parameters(), lr=0.1, max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, own_batch(3))
        loss.backward()
        return loss

    def single_closure() -> torch.Tensor:
        plain.zero_grad()
        loss = loss_of(single, joined_batch(3))
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        plain.step(single_closure)
    agree(model, single, 1e-4)


@case
def loading_a_state_starts_again() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    state = copy.deepcopy(optimizer.state_dict())
    loss_of(model, own_batch(0)).backward()
    optimizer.load_state_dict(state)
    optimizer.zero_grad()
    loss_of(model, own_batch(0)).backward()
    optimizer.step()


@case
def other_operations_may_come_between_backward_and_step() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    loss = loss_of(model, own_batch(0))
    loss.backward()
    if hvd.rank() == 0:
        hvd.allreduce(loss.detach(), name="loss")
    optimizer.step()
    if hvd.rank() != 0:
        hvd.allreduce(loss.detach(), name="loss")


@case
def clipping_between_synchronize_and_step() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    (1000 * loss_of(model, own_batch(0))).backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    weights = hvd.allgather(model[0].weight.detach().flatten().unsqueeze(0))
    assert torch.equal(weights, weights[:1].expand_as(weights))


def clip(model: torch.nn.Module) -> None:
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def train_scaled(fused: bool, clips: bool, synchronizes: bool) -> None:
    """Beside one process, with a step in which one rank's gradients overflow: no rank makes it."""
    model, single = make_model(), make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    plain = torch.optim.SGD(single.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    overflowing = 2
    for step in range(5):
        optimizer.zero_grad()
        plain.zero_grad()
        loss = loss_of(model, own_batch(step))
        is_bad = step == overflowing and hvd.rank() == hvd.size() - 1
        scaler.scale(loss * float("inf") if is_bad else loss).backward()
        if synchronizes:
            optimizer.synchronize()
        if clips:
            scaler.unscale_(optimizer)
            clip(model)
        with optimizer.skip_synchronize() if synchronizes else contextlib.nullcontext():
            scaler.step(optimizer)
        scaler.update()
        if step != overflowing:
            loss_of(single, joined_batch(step)).backward()
            if clips:
                clip(single)
            plain.step()
        agree(model, single)
    assert scaler.get_scale() == 512.0, scaler.get_scale()


@case
def gradient_scalers_divide_what_is_combined() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fused in (False, True):
            train_scaled(fused, clips=False, synchronizes=False)
            train_scaled(fused, clips=True, synchronizes=False)
            train_scaled(fused, clips=False, synchronizes=True)
            train_scaled(fused, clips=True, synchronizes=True)


@case
def a_step_without_the_scaler_after_one_that_overflowed_is_combined() -> None:
    model, single = make_model(), make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    plain = sgd(single)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss_of(model, own_batch(0)) * float("inf")).backward()
    scaler.step(optimizer)
    optimizer.zero_grad()

    loss_of(model, own_batch(1)).backward()
    optimizer.step()
    loss_of(single, joined_batch(1)).backward()
    plain.step()

    agree(model, single)


@case
def clipping_gradients_on_their_way_warns_once() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    counts = []
    for synchronizes in (True, False, False):
        (1000 * loss_of(model, own_batch(0))).backward()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if synchronizes:
                optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize() if synchronizes else contextlib.nullcontext():
                optimizer.step()
        counts.append(len(caught))
        optimizer.zero_grad()
    assert counts == [0, hvd.size() > 1, 0], counts


def optimizer_classes() -> list[type[torch.optim.Optimizer]]:
    everything = vars(torch.optim).values()
    classes = [one for one in everything if inspect.isclass(one)]
    skipped = (torch.optim.Optimizer, torch.optim.SparseAdam)  # abstract; sparse gradients only
    return [one for one in classes if issubclass(one, torch.optim.Optimizer) and one not in skipped]


def make_optimizer(kind: type[torch.optim.Optimizer], lr: float) -> torch.optim.Optimizer:
    model = torch.nn.Linear(3, 2, bias=False)  # Muon takes matrices only
    optimizer = kind(model.parameters(), lr=lr)
    optimizer.model = model
    return optimizer


def step_of(optimizer: torch.optim.Optimizer) -> None:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = optimizer.model(torch.ones(1, 3)).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def state_as_text(optimizer: torch.optim.Optimizer) -> str:
    return str(optimizer.state_dict())


@case
def states_of_every_optimizer_are_broadcast() -> None:
    kinds = optimizer_classes()
    assert len(kinds) > 10
    for kind in kinds:
        for stepped in ("nobody", "root", "others", "all"):
            is_root = hvd.rank() == 0
            torch.manual_seed(hvd.rank())
            optimizer = make_optimizer(kind, lr=0.5 if is_root else 0.25)
            if stepped == "all" or stepped == ("root" if is_root else "others"):
                step_of(optimizer)
            hvd.broadcast_parameters(optimizer.model.state_dict(), 0)
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            assert optimizer.param_groups[0]["lr"] == 0.5, kind
            texts = set(hvd.allgather_object(state_as_text(optimizer)))
            assert len(texts) == 1, (kind, stepped, texts)
            step_of(optimizer)
            everywhere = hvd.allgather(optimizer.model.weight.detach().reshape(1, -1))
            assert torch.equal(everywhere, everywhere[:1].expand_as(everywhere)), (kind, stepped)


@case
def a_wrapped_optimizers_state_is_broadcast() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.1 * (hvd.rank() + 1)), model.named_parameters()
    )
    hvd.broadcast_optimizer_state(optimizer, root_rank=hvd.size() - 1)
    assert abs(optimizer.param_groups[0]["lr"] - 0.1 * hvd.size()) < 1e-12
    loss_of(model, own_batch(0)).backward()
    optimizer.step()


@case
def models_with_running_statistics_are_broadcast() -> None:
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    for _ in range(hvd.rank() + 1):
        model(torch.randn(4, 3))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    assert model[1].num_batches_tracked.item() == 1
    assert model[1].num_batches_tracked.shape == torch.Size([])
    assert len({str(one) for one in hvd.allgather_object(str(model.state_dict()))}) == 1


@case
def parameters_without_names_are_broadcast() -> None:
    for as_given in (list, iter):
        parameters = [torch.full((2,), float(hvd.rank())), None, torch.tensor(hvd.rank())]
        hvd.broadcast_parameters(as_given(parameters), root_rank=hvd.size() - 1)
        assert parameters[0].tolist() == [hvd.size() - 1.0] * 2
        assert parameters[2].item() == hvd.size() - 1
    raises(ValueError, lambda: hvd.broadcast_parameters([("weight",)], 0))


class AsksForRank(Dataset):
    """Its workers are forked processes that use what they may of the parent's world."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        try:
            hvd.allreduce(torch.ones(1))
        except Exception:
            return torch.tensor([hvd.rank(), hvd.size(), os.getpid()])
        raise AssertionError("an operation in a forked worker")


@case
def forked_loader_workers_may_ask_for_the_rank() -> None:
    for _ in range(2):
        for batch in DataLoader(AsksForRank(), batch_size=2, num_workers=2):
            assert batch[:, 0].eq(hvd.rank()).all() and batch[:, 1].eq(hvd.size()).all()
            assert not batch[:, 2].eq(os.getpid()).any()
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@case
def a_model_may_get_another_optimizer() -> None:
    model = make_model()
    for _ in range(2):
        optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
        loss_of(model, own_batch(0)).backward()
        optimizer.step()
        optimizer.zero_grad()
        del optimizer
        gc.collect()


@case
def one_rank_of_an_elastic_job_has_hooks() -> None:
    os.environ["HOROVOD_ELASTIC"] = "1"
    try:
        model = make_model()
        optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    finally:
        del os.environ["HOROVOD_ELASTIC"]
    before = basics.counters()["submitted"]
    loss_of(model, own_batch(0)).backward()
    optimizer.step()
    assert basics.counters()["submitted"] - before == len(list(model.parameters()))


@case
def one_rank_has_no_hooks() -> None:
    model = make_model()
    hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    hooks = [parameter._post_accumulate_grad_hooks for parameter in model.parameters()]
    assert all(hooks) if hvd.size() > 1 else not any(hooks)


if __name__ == "__main__":
    hvd.init()
    torch.set_num_threads(1)
    print(f"world {hvd.rank()} {hvd.size()}\n", end="", flush=True)
    run()
