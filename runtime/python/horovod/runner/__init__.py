# SPDX-License-Identifier: Apache-2.0
"""Jobs from Python: `run` calls a function in the ranks of a job. On a command line it is
`horovodrun`."""

from horovod.runner.errors import HorovodRankError
from horovod.runner.function_job import run

__all__ = ["HorovodRankError", "run"]
