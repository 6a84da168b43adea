# SPDX-License-Identifier: Apache-2.0
"""The state of a PyTorch training run: models, optimizers, samplers and plain values."""

from __future__ import annotations

import copy
from typing import Any

import torch

from horovod.common.basics import basics
from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)


class StateHandler:
    """Saves, restores and synchronizes one value with a state_dict."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def set_value(self, value: Any) -> None:
        """Handles another value from here on."""
        self.value = value
        self.save()

    def save(self) -> None:
        self._saved_state = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved_state))

    def sync(self) -> None:
        self._broadcast()
        self.save()

    def _broadcast(self) -> None:
        """Gives the value the state that it has on rank 0."""
        raise NotImplementedError


class ModelStateHandler(StateHandler):
    """A torch.nn.Module."""

    def _broadcast(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(StateHandler):
    """A torch.optim.Optimizer."""

    def _broadcast(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class SamplerStateHandler(StateHandler):
    """An ElasticSampler."""

    def _broadcast(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))


Registry = list[tuple[type, type[StateHandler]]]

_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """(type, handler) pairs; the first whose type a value has handles it."""
    return _registry


def set_handler_registry(registry: Registry) -> None:
    global _registry
    _registry = registry


def _handler_of(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None


class TorchState(ObjectState):
    """`model`, `optimizer` and any other keyword become attributes of the same name. Models,
    optimizers and samplers are handled by their state_dict, everything else as a plain value."""

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        self._handlers: dict[str, StateHandler] = {}
        values = {"model": model, "optimizer": optimizer, **kwargs}
        handlers = {name: _handler_of(value) for name, value in values.items()}
        plain = {name: value for name, value in values.items() if handlers[name] is None}
        super().__init__(bcast_object=broadcast_object, get_rank=basics.rank, **plain)
        for name, handler in handlers.items():
            if handler is not None:
                super().__setattr__(name, handler.value)
                self._handlers[name] = handler

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_handlers" and name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
