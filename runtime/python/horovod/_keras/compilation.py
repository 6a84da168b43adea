# SPDX-License-Identifier: Apache-2.0
"""What model.compile() does differently for a distributed optimizer.

XLA cannot compile the collectives, and Keras wraps the optimizer of a mixed_float16 model itself,
after the program has wrapped it. Neither can be seen from the optimizer, so Model.compile is taught
about both, once, when the first optimizer is wrapped; for other optimizers it is as before.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any

from horovod._keras.chosen import framework
from horovod.common.basics import basics

logger = logging.getLogger("horovod.keras")

_MARK = "_hvd_original"

# The original's examples pass it; Keras 3 has dropped it.
_DROPPED = "experimental_run_tf_function"


def watch(kind: type) -> None:
    """Teaches Model.compile of the Keras that an optimizer class belongs to."""
    packages = {base.__module__.split(".")[0] for base in kind.__mro__}
    for name in ("keras", "tf_keras"):
        if name in packages:
            _teach(sys.modules[name].Model)


def _teach(model: type) -> None:
    owner = next(base for base in model.__mro__ if "compile" in vars(base))
    original = vars(owner)["compile"]
    if not hasattr(original, _MARK):
        taught = _taught(original)
        setattr(taught, _MARK, original)
        owner.compile = taught  # type: ignore[attr-defined]


def _taught(original: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(original)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    dropped = set() if inspect.Parameter.VAR_KEYWORD in kinds else {_DROPPED}

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> None:
        from horovod._keras.optimizer import agree_on_finite, is_distributed

        known = {key: value for key, value in kwargs.items() if key not in dropped}
        call = signature.bind(self, *args, **known)
        if not is_distributed(call.arguments.get("optimizer")):
            original(self, *args, **kwargs)
            return
        call.apply_defaults()
        call.arguments["jit_compile"] = _without_xla(call.arguments["jit_compile"])
        original(*call.args, **call.kwargs)
        agree_on_finite(self.optimizer)

    return compile


@functools.cache
def say_once(sentence: str) -> None:
    """One line of rank 0, also where nobody has set up logging, which shows warnings only."""
    if basics.is_initialized() and basics.rank() != 0:
        logger.debug(sentence)
        return
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
    logger.info(sentence)


def _without_xla(jit_compile: bool | str | None) -> bool | None:
    """The value to compile with. tf_keras says None where Keras 3 says "auto"."""
    if jit_compile is True:
        raise ValueError(
            "jit_compile=True does not work with hvd.DistributedOptimizer: its collectives cannot "
            "be compiled. Leave jit_compile out, or pass jit_compile=False, in model.compile()"
        )
    if jit_compile == "auto" and framework().__name__.endswith("on_torch"):
        return False  # which is what Keras means by it there
    if jit_compile == "auto":
        say_once('jit_compile="auto" is False: XLA cannot compile collectives')
        return False
    return None if jit_compile is None else bool(jit_compile)
