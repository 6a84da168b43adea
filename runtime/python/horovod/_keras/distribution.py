# SPDX-License-Identifier: Apache-2.0
"""How one optimizer works on the gradients of all ranks."""

from __future__ import annotations

from typing import Any

from horovod.common.basics import Adasum
from horovod.common.reduction import ReducerSettings


class Distribution:
    """The answer to _hvd_distribution. `framework` is on_tensorflow or on_torch."""

    def __init__(
        self, framework: Any, settings: ReducerSettings, passes: int, average_passes: bool
    ) -> None:
        if passes < 1:
            raise ValueError(f"backward_passes_per_step={passes}: it must be positive")
        if settings.op == Adasum:
            raise ValueError(
                "op=hvd.Adasum is not for optimizers of Keras: use it in hvd.allreduce, or with a "
                "tf.compat.v1.train or torch.optim optimizer"
            )
        self.framework = framework
        self.reducer = framework.make_reducer(settings)
        self.passes = passes
        self.average_passes = average_passes

    def on_every_rank(self, own: Any) -> Any:
        """True where `own` is true on all ranks."""
        return self.framework.on_every_rank(own, self.reducer)

    def make_aggregation(self) -> Any:
        """None where every pass is a step."""
        if self.passes == 1:
            return None
        return self.framework.make_aggregation(self.reducer, self.passes, self.average_passes)
