# SPDX-License-Identifier: Apache-2.0
"""Optimizers for large batches, and learning rates that follow the number of ranks."""

from horovod._keras.large_batch import LAMB, LARS, RAdam
from horovod._keras.rates import WarmupSchedule
from horovod.common.learning_rate import scaled_lr, warmup_lr

__all__ = ["LAMB", "LARS", "RAdam", "WarmupSchedule", "scaled_lr", "warmup_lr"]
