# SPDX-License-Identifier: Apache-2.0
"""Jobs whose ranks are tasks of Spark."""

from horovod.spark.packages import require

require("pyspark", "cryptography")

from horovod.spark.function_job import LostTaskError, run  # noqa: E402
from horovod.spark.runner import HorovodRunner  # noqa: E402

__all__ = ["HorovodRunner", "LostTaskError", "run"]
