# SPDX-License-Identifier: Apache-2.0
"""A new optimizer like a given one: class, settings and state."""

from __future__ import annotations

import copy
from typing import Any

from horovod._keras.kinds import is_keras_3
from horovod._keras.state import variables_of


def _scheduled_rate(optimizer: Any) -> Any:
    """The function or schedule that its learning rate comes from; None where it is a number."""
    fields = vars(optimizer)
    rate = fields.get("_learning_rate", fields.get("_hyper", {}).get("learning_rate"))
    return rate if callable(rate) and not hasattr(rate, "assign") else None


def _config_of(optimizer: Any) -> dict[str, Any]:
    """Its config without the schedule and the inner optimizer: not all that a program has made can
    be written down in a config, and be made from it again."""
    plain = object.__new__(type(optimizer))
    fields = vars(plain)
    fields.update(vars(optimizer))
    if _scheduled_rate(optimizer) is not None:
        if "_hyper" in fields:
            fields["_hyper"] = {**fields["_hyper"], "learning_rate": 0.0}
        else:
            fields["_learning_rate"] = 0.0
    if "inner_optimizer" in fields:
        fields["inner_optimizer"] = None
    config: dict[str, Any] = plain.get_config()
    return config


def _made_like(optimizer: Any) -> Any:
    """A new optimizer of the same class and settings."""
    kind = type(optimizer)
    config = _config_of(optimizer)
    if "inner_optimizer" in vars(optimizer):
        del config["inner_optimizer"]
        return kind(copied(optimizer.inner_optimizer), **config)
    made = kind.from_config(config)
    rate = _scheduled_rate(optimizer)
    if rate is not None and hasattr(made, "_build_learning_rate"):  # tf_keras, but not its legacy
        made._learning_rate = made._build_learning_rate(rate)
    elif rate is not None:
        made.learning_rate = rate
    for name, value in vars(optimizer).items():
        # A config lacks the attributes of a class of one's own, and those that methods set.
        is_setting = not name.startswith("_") or name.startswith("_exclude_from_weight_decay")
        if is_setting and name != "built" and not _has_variables(value):
            setattr(made, name, value)
    return made


def _is_variable(value: Any) -> bool:
    """Of TensorFlow or of Keras, but not a tensor."""
    return hasattr(value, "assign") and hasattr(value, "assign_add")


def _has_variables(value: Any) -> bool:
    if isinstance(value, (dict, list, tuple)):
        return any(map(_has_variables, value.values() if isinstance(value, dict) else value))
    return _is_variable(value)


def copied(optimizer: Any) -> Any:
    """A new optimizer of the same class, settings and state."""
    copied = _made_like(optimizer)
    variables = variables_of(optimizer)
    if len(variables) > len(variables_of(copied)):  # it was used
        if not is_keras_3(optimizer):  # it does not know for which variables: the state is shared
            return copy.copy(optimizer)
        copied.build(optimizer._trainable_variables)
    for new, old in zip(variables_of(copied), variables, strict=True):
        new.assign(old)
    return copied
