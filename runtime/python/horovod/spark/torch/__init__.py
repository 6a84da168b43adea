# SPDX-License-Identifier: Apache-2.0
"""PyTorch models that are trained on a DataFrame of Spark."""

from horovod.spark.torch.estimator import TorchEstimator, TorchModel

__all__ = ["TorchEstimator", "TorchModel"]
