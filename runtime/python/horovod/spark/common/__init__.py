# SPDX-License-Identifier: Apache-2.0
"""What the estimators share: parameters, stores, data, and the way from `fit` to a model."""

from horovod.spark.packages import require

require("pandas", "pyarrow")
