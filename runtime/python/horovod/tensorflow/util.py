# SPDX-License-Identifier: Apache-2.0
"""Small helpers that scripts of the original import from here."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# For what programs call inside a tf.function: AutoGraph would rewrite it, which takes seconds and
# changes nothing.
as_it_is = tf.autograph.experimental.do_not_convert


def _executing_eagerly() -> bool:
    return bool(tf.executing_eagerly())


def native_variable(variable: Any) -> tf.Variable:
    """The tf.Variable inside a Keras 3 variable; any other variable as it is."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value
