# SPDX-License-Identifier: Apache-2.0
"""Small helpers that scripts of the original import from here."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from horovod.common.util import _cache

__all__ = ["_cache", "_executing_eagerly", "refs_to_vars", "vars_to_refs"]

# For what programs call inside a tf.function: AutoGraph would rewrite it, which takes seconds and
# changes nothing.
as_it_is = tf.autograph.experimental.do_not_convert


def _executing_eagerly() -> bool:
    return bool(tf.executing_eagerly())


def native_variable(variable: Any) -> tf.Variable:
    """The tf.Variable inside a Keras 3 variable; any other variable as it is."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def key_of(variable: Any) -> Any:
    """What tells variables, and other sources of gradients, apart."""
    return native_variable(variable).ref()


def on_device(name: str) -> Any:
    """tf.device, where a device is named."""
    return tf.device(name) if name else contextlib.nullcontext()


def vars_to_refs(variables: Any) -> Any:
    """Variables, also in nested lists, as what can be hashed."""
    if isinstance(variables, (list, tuple)):
        return tuple(vars_to_refs(one) for one in variables)
    return key_of(variables)


def refs_to_vars(refs: Any) -> Any:
    """The variables again."""
    if isinstance(refs, (list, tuple)):
        return [refs_to_vars(one) for one in refs]
    return refs.deref()
