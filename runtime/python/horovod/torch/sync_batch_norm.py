# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch


class SyncBatchNorm(torch.nn.modules.batchnorm._BatchNorm):
    """Not there yet; the name exists for scripts that use it only with GPUs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("horovod.torch.SyncBatchNorm is not supported yet")
