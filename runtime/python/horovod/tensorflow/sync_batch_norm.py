# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any


class SyncBatchNormalization:
    """Not there yet; the name exists for scripts that choose it by an option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("horovod.tensorflow.SyncBatchNormalization is not supported yet")
