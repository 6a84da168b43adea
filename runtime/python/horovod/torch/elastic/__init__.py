# SPDX-License-Identifier: Apache-2.0
"""Elastic training: states that can be saved and restored. Elastic jobs do not exist yet."""

from __future__ import annotations

from horovod.common.elastic import run
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]
