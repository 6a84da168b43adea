# SPDX-License-Identifier: Apache-2.0
from horovod.spark.driver_log import log_to_driver

__all__ = ["log_to_driver"]
