# SPDX-License-Identifier: Apache-2.0
"""Brings models, optimizers and objects of all ranks to the same state."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from horovod.common import objects, operations
from horovod.common import process_sets as sets
from horovod.common.basics import basics
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch import submission
from horovod.torch.submission import Place, Settings


def broadcast_parameters(
    params: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor] | torch.Tensor],
    root_rank: int,
) -> None:
    """Overwrites parameters with those of the root: a `state_dict()`, `named_parameters()`, or
    `parameters()`, which go by their places."""
    given = params.items() if isinstance(params, Mapping) else params
    pairs: list[Any] = [
        one if isinstance(one, tuple) else (f"parameter.{place}", one)
        for place, one in enumerate(given)
    ]
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(
                "broadcast_parameters needs a state_dict, model.named_parameters() or "
                f"model.parameters(); got a tuple of {len(pair)}"
            )
    _broadcast_all([(name, tensor) for name, tensor in pairs if tensor is not None], root_rank)


def _broadcast_all(named: Sequence[tuple[str, torch.Tensor]], root_rank: int) -> None:
    settings = Settings(op=operations.BROADCAST, place=Place.in_place, root=root_rank)
    if named:
        submission.run(submission.each("broadcast", named), settings)


@dataclass(frozen=True)
class _TensorPlace:
    """Stands in a state for a tensor that travels by itself."""

    index: int
    shape: tuple[int, ...]
    dtype: torch.dtype


def _replace(value: Any, kinds: type, make: Callable[[Any], Any]) -> Any:
    """A copy of nested containers in which every `kinds` was replaced."""
    if isinstance(value, kinds):
        return make(value)
    if isinstance(value, Mapping):
        return {key: _replace(one, kinds, make) for key, one in value.items()}
    if isinstance(value, deque):
        return deque((_replace(one, kinds, make) for one in value), value.maxlen)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_replace(one, kinds, make) for one in value)
    return value


@contextlib.contextmanager
def loading_in_place(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """What load_state_dict replaces within it goes into the groups and the state that were there.

    A wrapped optimizer shares them with the one it was made from, and so with schedulers of that.
    """
    groups, state = optimizer.param_groups, optimizer.state
    yield
    loaded = [dict(one) for one in (*optimizer.param_groups, optimizer.state)]
    optimizer.param_groups, optimizer.state = groups, state
    for old, new in zip((*groups, state), loaded, strict=True):
        old.clear()
        old.update(new)


def _fill_gradients(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Overwrites an optimizer's options and state with those of the root.

    Works for every optimizer that `state_dict` and `load_state_dict` work for, also one that has
    not stepped yet on some ranks. Where it has no state, parameters without a gradient get zeros,
    which programs of the original find there; SparseAdam takes no dense gradients, and gets none.
    `model` has no effect: what there is to broadcast stands in the optimizer.
    """
    if model is not None and not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"broadcast_optimizer_state: model is {model!r}; use a torch.nn.Module, or leave it out"
        )
    if not optimizer.state and not isinstance(optimizer, torch.optim.SparseAdam):
        _fill_gradients(optimizer)
    is_root = basics.rank() == root_rank
    tensors: list[torch.Tensor] = []

    def put_aside(tensor: torch.Tensor) -> _TensorPlace:
        tensors.append(tensor.cpu())  # where other ranks have room for it
        return _TensorPlace(len(tensors) - 1, tuple(tensor.shape), tensor.dtype)

    def make_room(place: _TensorPlace) -> torch.Tensor:
        tensors.append(torch.empty(place.shape, dtype=place.dtype))
        return tensors[-1]

    skeleton = _replace(optimizer.state_dict(), torch.Tensor, put_aside) if is_root else None
    skeleton = broadcast_object(skeleton, root_rank, name="optimizer_state")
    state = None if is_root else _replace(skeleton, _TensorPlace, make_room)
    named = [(f"optimizer_state.{index}", tensor) for index, tensor in enumerate(tensors)]
    _broadcast_all(named, root_rank)
    if state is not None:
        with loading_in_place(optimizer):
            optimizer.load_state_dict(state)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The root's object, pickled, on every rank. `obj` is read on the root only."""
    return objects.broadcast_object(obj, root_rank, name, sets.process_set_id(process_set))


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """The objects of all ranks, pickled, in rank order."""
    return objects.allgather_object(obj, name)
