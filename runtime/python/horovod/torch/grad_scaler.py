# SPDX-License-Identifier: Apache-2.0
"""Lets torch's GradScaler work with optimizers whose gradients or steps are combined.

A scaler divides gradients where they are, and looks for overflow in them: those of all ranks, not
those on their way. Every way of it, also that of fused optimizers, goes through one method, which
is wrapped when the first distributed optimizer is made, and never in a program without one.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def let_scalers_synchronize() -> None:
    """Wraps the method once. An optimizer with `_before_unscale` is told first, and one with
    `_after_unscale` gets to see the flags of overflow, by device."""
    kind = getattr(torch.amp, "GradScaler", None)  # not in old versions
    unscale = getattr(kind, "_unscale_grads_", None)
    if kind is None or unscale is None or hasattr(unscale, "__wrapped__"):
        return

    @functools.wraps(unscale)
    def unscale_combined(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(optimizer, "_before_unscale"):
            optimizer._before_unscale()
        flags = unscale(scaler, optimizer, *args, **kwargs)
        if hasattr(optimizer, "_after_unscale"):
            optimizer._after_unscale(flags)
        return flags

    kind._unscale_grads_ = unscale_combined
