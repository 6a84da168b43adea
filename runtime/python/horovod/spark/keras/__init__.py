# SPDX-License-Identifier: Apache-2.0
"""Keras models that are trained on a DataFrame of Spark."""

from horovod.spark.keras.estimator import KerasEstimator, KerasModel

__all__ = ["KerasEstimator", "KerasModel"]
