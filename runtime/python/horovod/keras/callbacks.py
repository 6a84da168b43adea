# SPDX-License-Identifier: Apache-2.0
"""The callbacks of this front end."""

from horovod._keras.callbacks import (
    BestModelCheckpoint,
    BroadcastGlobalVariablesCallback,
    LearningRateScalingCallback,
    LearningRateScheduleCallback,
    LearningRateWarmupCallback,
    LRWarmupCallback,
    MetricAverageCallback,
)

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LRWarmupCallback",
    "LearningRateScalingCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]
