# SPDX-License-Identifier: Apache-2.0
"""The names under which notebooks of Databricks import horovod.spark."""

from horovod.spark import HorovodRunner

__all__ = ["HorovodRunner"]
