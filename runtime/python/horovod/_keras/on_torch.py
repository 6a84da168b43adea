# SPDX-License-Identifier: Apache-2.0
"""Collectives for a Keras that computes with PyTorch, which has no graphs."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import horovod.torch  # noqa: F401  (first: it says what is missing)

# isort: split
import numpy as np
import torch

from horovod._keras import state
from horovod.common import objects
from horovod.common.basics import Min, basics
from horovod.common.elastic import ObjectState
from horovod.common.process_sets import ProcessSet, global_process_set, process_set_id
from horovod.common.reduction import ReducerSettings
from horovod.torch import mpi_ops
from horovod.torch.compression import Compression

__all__ = ["Compression", "KerasState"]

F = TypeVar("F", bound=Callable[..., Any])

_numbers = itertools.count()


def as_it_is(function: F) -> F:
    """There is no AutoGraph here that would rewrite the function."""
    return function


def key_of(variable: Any) -> int:
    return id(variable)


def device_of(name: str) -> torch.device | None:
    """The device that a program names as PyTorch or as TensorFlow does, such as "cuda:0", "/gpu:0"
    or "/device:GPU:0"; None where it names none."""
    if not name:
        return None
    own = name.lower().rsplit("/", 1)[-1].removeprefix("device:")
    return torch.device(own.replace("gpu", "cuda"))


def on_device(name: str) -> Any:
    return device_of(name) or contextlib.nullcontext()


class TorchReducer:
    """Reduces gradients by the settings, but for those of local variables."""

    def __init__(self, settings: ReducerSettings) -> None:
        if settings.device_sparse:
            raise ValueError(
                f"device_sparse={settings.device_sparse!r}: with Keras on PyTorch no gradient "
                f"travels as a sparse one; leave it out"
            )
        self.settings = settings
        self._device = device_of(settings.device_dense)
        self._local: dict[int, Any] = {}

    @functools.cached_property
    def name(self) -> str:
        """What begins the names of the operations: numbered when it first reduces, which all ranks
        do in the same order."""
        return f"{self.settings.name}.{next(_numbers)}"

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable stays each rank's own. It is divided by the number of ranks
        unless scale_local_gradients is False."""
        self._local[key_of(variable)] = variable  # held, so that the key stays its own

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Each gradient over all ranks; None stays None."""
        results = list(gradients)
        settings = self.settings
        if settings.size == 1:
            return results
        shared = []
        for i, variable in enumerate(variables):
            if results[i] is None:
                continue
            if key_of(variable) not in self._local:
                shared.append(i)
            elif settings.scale_local_gradients:
                results[i] = results[i] / settings.size
        for number, places in enumerate(settings.batches(shared, variables, key_of)):
            reduced = mpi_ops.grouped_allreduce(
                [_contiguous(results[i], settings.sparse_as_dense, self._device) for i in places],
                name=f"{self.name}_group{number}",
                compression=settings.compression,
                op=settings.op,
                prescale_factor=1.0 / settings.gradient_predivide_factor,
                postscale_factor=settings.gradient_predivide_factor,
                process_set=settings.process_set,
            )
            for i, tensor in zip(places, reduced, strict=True):
                results[i] = tensor.to(results[i].device)
        return results


def _contiguous(gradient: Any, sparse_as_dense: bool, device: torch.device | None) -> Any:
    gradient = gradient.detach()
    if gradient.is_sparse:
        if not sparse_as_dense:
            raise ValueError("a gradient is sparse: pass sparse_as_dense=True")
        gradient = gradient.to_dense()
    return gradient.to(device).contiguous()


class TorchAggregation:
    """Gradients summed on this rank over several passes, and reduced after the last."""

    def __init__(self, reducer: TorchReducer, passes: int, average: bool) -> None:
        self.backward_passes_per_step = passes
        self.counter = 0
        self._reducer = reducer
        self._average = average
        self._sums: dict[int, Any] = {}

    def compute_gradients(self, grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Adds one pass. The reduced sums after the last of them, the gradients as they are
        otherwise."""
        for gradient, variable in zip(grads, variables, strict=True):
            if gradient is not None:
                known = self._sums.get(key_of(variable))
                own = gradient.detach()
                self._sums[key_of(variable)] = own.clone() if known is None else known.add_(own)
        self.counter += 1
        if self.counter < self.backward_passes_per_step:
            return list(grads)
        self.counter = 0
        divisor = self.backward_passes_per_step if self._average else 1
        totals = [self._sums.get(key_of(one)) for one in variables]
        self._sums.clear()
        scaled = [None if one is None else one / divisor for one in totals]
        return self._reducer.reduce(scaled, variables)

    def apply_gradients(self, apply: Callable[[], Any], optimizer: Any, *_: Any) -> None:
        """Calls `apply` where the last `compute_gradients` reduced, else counts a step."""
        if self.counter == 0:
            apply()
        else:
            optimizer.iterations.assign_add(1)


def make_reducer(settings: ReducerSettings) -> TorchReducer:
    return TorchReducer(settings)


def make_aggregation(reducer: TorchReducer, passes: int, average: bool) -> TorchAggregation:
    """What sums the gradients of several passes."""
    return TorchAggregation(reducer, passes, average)


def on_every_rank(own: Any, reducer: TorchReducer) -> Any:
    """True where `own` is true on all ranks that reduce together."""
    if reducer.settings.size == 1:
        return own
    number = torch.as_tensor(own).to(torch.int32).reshape(1)
    name = f"{reducer.name}_finite"
    reduced = mpi_ops.allreduce(number, op=Min, name=name, process_set=reducer.settings.process_set)
    return reduced[0] != 0


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes the state of an optimizer."""
    if not optimizer.built:
        optimizer.build(variables)
        optimizer.built = True


def gradients_of(loss: Any, variables: Any, grad_loss: Any, tape: Any) -> tuple[list[Any], Any]:
    """This rank's gradients of a loss, or of a function that computes it, and their variables."""
    if tape is not None:
        raise ValueError("_compute_gradients: PyTorch has no tapes; leave `tape` out")
    value = loss() if callable(loss) else loss
    own = list(variables() if callable(variables) else variables)
    return list(torch.autograd.grad(value, [one.value for one in own], grad_loss)), own


def broadcast_variables(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> None:
    """Gives all variables the values they have on the root. `inplace` makes no difference: the
    variables themselves change."""
    _broadcast(variables, root_rank, process_set, None)


def broadcast_on(device: str, variables: Sequence[Any], root_rank: int) -> None:
    """broadcast_variables by tensors of this device."""
    _broadcast(variables, root_rank, global_process_set, device_of(device))


def _broadcast(
    variables: Sequence[Any],
    root_rank: int,
    process_set: ProcessSet,
    device: torch.device | None,
) -> None:
    own = list(variables)
    shapes = [f"{one.dtype} of shape {tuple(one.shape)}" for one in own]
    chosen = process_set_id(process_set)
    roots = objects.broadcast_object(shapes, root_rank, "broadcast_variables", chosen)
    everybodys = objects.allgather_object(shapes == roots, "broadcast_variables", chosen)
    for rank, is_alike in zip(process_set.ranks or (), everybodys, strict=True):
        if not is_alike:
            raise ValueError(
                f"broadcast_variables: rank {rank} has other variables than rank {root_rank}, the "
                f"root. Make or load the same model and optimizer on every rank before"
            )
    handles = [
        mpi_ops.broadcast_async(
            one.value.detach().to(device).contiguous(), root_rank, f"variable.{i}", process_set
        )
        for i, one in enumerate(own)
    ]
    for variable, handle in zip(own, handles, strict=True):
        variable.assign(mpi_ops.synchronize(handle))


def broadcast_global_variables(root_rank: int) -> None:
    raise RuntimeError(
        "hvd.broadcast_global_variables() is for graphs of TensorFlow 1: use "
        "hvd.broadcast_variables(model.variables, root_rank)"
    )


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The root's Python object, on every rank of the set."""
    _refuse(session)
    return objects.broadcast_object(obj, root_rank, name, process_set_id(process_set))


def allgather_object(
    obj: Any,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """The objects of all ranks of the set, by rank, on each of them."""
    _refuse(session)
    return objects.allgather_object(obj, name, process_set_id(process_set))


def _refuse(session: Any) -> None:
    if session is not None:
        raise ValueError("PyTorch has no sessions: leave `session` out")


def _tensor(value: Any) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    array = np.asarray(value)
    # Python's numbers are float32, as elsewhere in Keras.
    is_plain = not isinstance(value, (np.ndarray, np.generic)) and array.dtype == np.float64
    return torch.as_tensor(array.astype(np.float32) if is_plain else array)


def allreduce(value: Any, **arguments: Any) -> Any:
    return mpi_ops.allreduce(_tensor(value), **arguments).cpu().numpy()


def allgather(value: Any, name: str | None) -> Any:
    return mpi_ops.allgather(_tensor(value), name=name).cpu().numpy()


def broadcast(value: Any, root_rank: int, name: str | None) -> Any:
    return mpi_ops.broadcast(_tensor(value), root_rank, name=name).cpu().numpy()


def reducescatter(value: Any, name: str | None, op: int) -> Any:
    return mpi_ops.reducescatter(_tensor(value), name=name, op=op).cpu().numpy()


class KerasState(ObjectState):
    """A Keras model, its optimizer (or the one given), and plain values."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        super().__init__(bcast_object=objects.broadcast_object, get_rank=basics.rank, **kwargs)
        self._save_variables()

    def _variables(self) -> list[Any]:
        return [*self.model.variables, *state.variables_of(self.optimizer)]

    def _save_variables(self) -> None:
        self._saved_variables = [np.array(one) for one in self._variables()]

    def save(self) -> None:
        self._save_variables()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self._variables(), self._saved_variables, strict=False):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        if self.optimizer is not None and self.model.built:
            state.build(self.optimizer, self.model.trainable_variables)
        broadcast_variables(self._variables(), 0)
        self._save_variables()
        super().sync()
