# SPDX-License-Identifier: Apache-2.0
"""The state of a training run as a value: variables, models and optimizers of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from horovod._keras import state
from horovod.common.basics import basics
from horovod.common.elastic import ObjectState, run
from horovod.tensorflow.functions import broadcast_object, broadcast_variables
from horovod.tensorflow.util import native_variable

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


class _Variables:
    """The values of variables, in eager code or in a session."""

    def __init__(self, find: Callable[[], Sequence[Any]], find_session: Callable[[], Any]) -> None:
        self._find = find
        self._find_session = find_session
        self._saved: list[np.ndarray] = []
        self._placeholders: dict[Any, tuple[Any, Any]] = {}

    def _native(self) -> list[Any]:
        return [native_variable(one) for one in self._find()]

    def save(self) -> None:
        own = self._native()
        session = self._find_session()
        if session is None:
            self._saved = [np.array(one.numpy()) for one in own]
        else:
            self._saved = list(session.run(own)) if own else []

    def restore(self) -> None:
        own = self._native()[: len(self._saved)]
        session = self._find_session()
        for variable, value in zip(own, self._saved, strict=True):
            if session is None:
                variable.assign(value)
            else:
                placeholder, assignment = self._assignment(variable)
                session.run(assignment, {placeholder: value})

    def _assignment(self, variable: Any) -> tuple[Any, Any]:
        known = self._placeholders.get(variable.ref())
        if known is None:
            placeholder = tf.compat.v1.placeholder(variable.dtype.base_dtype, variable.shape)
            known = placeholder, variable.assign(placeholder)
            self._placeholders[variable.ref()] = known
        return known

    def sync(self) -> None:
        session = self._find_session()
        done = broadcast_variables(self._find(), 0)
        if session is not None and self._find():
            session.run(done)
        self.save()


class _VariablesState(ObjectState):
    """Variables, and plain values as attributes."""

    def __init__(self, variables: _Variables, session: Any, values: dict[str, Any]) -> None:
        self._variables = variables

        def broadcast(value: Any) -> Any:
            return broadcast_object(value, session=session)

        super().__init__(bcast_object=broadcast, get_rank=basics.rank, **values)
        self._variables.save()

    def save(self) -> None:
        self._variables.save()
        super().save()

    def restore(self) -> None:
        self._variables.restore()
        super().restore()

    def sync(self) -> None:
        self._variables.sync()
        super().sync()


class TensorFlowState(_VariablesState):
    """`variables`, or all global ones of the graph, and plain values. A graph needs `session`, or a
    default session."""

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        is_graph = not tf.executing_eagerly()
        if variables is None:
            if not is_graph:
                raise ValueError("TensorFlowState needs variables: eager code has no list of all")
            variables = tf.compat.v1.global_variables()
        self.variables = list(variables)
        self.session = session or (tf.compat.v1.get_default_session() if is_graph else None)
        if is_graph and self.session is None:
            raise ValueError("TensorFlowState needs a session: make one the default, or pass it")
        super().__init__(
            _Variables(lambda: self.variables, lambda: self.session), self.session, kwargs
        )


class TensorFlowKerasState(_VariablesState):
    """A Keras model, its optimizer (or the one given), and plain values. `backend` is the Keras
    backend whose session a graph runs in."""

    def __init__(
        self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any
    ) -> None:
        self.model = model
        self.optimizer = optimizer or getattr(model, "optimizer", None)
        self.backend = backend
        is_graph = not tf.executing_eagerly()
        session = None
        if is_graph:
            keras_backend = backend or tf.compat.v1.keras.backend
            session = keras_backend.get_session()
        super().__init__(_Variables(self._weights, lambda: session), session, kwargs)

    def _weights(self) -> list[Any]:
        return [*self.model.weights, *state.variables_of(self.optimizer)]

    def sync(self) -> None:
        # Other ranks may have come without a step that would have made the optimizer's state.
        if self.optimizer is not None and self.model.built:
            state.build(self.optimizer, self.model.trainable_variables)
        super().sync()
