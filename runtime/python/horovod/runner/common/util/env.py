# SPDX-License-Identifier: Apache-2.0
"""The environment that a launcher gives to ranks."""

from __future__ import annotations

import os
import re

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]

# Variables of one host or one shell, which ranks elsewhere do not get.
IGNORE_REGEXES = {r"BASH_FUNC_.*\(\)", "BASH_FUNC_.*%%", "OLDPWD", ".*_SECRET_KEY"}
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"

# (rank, size) as each launcher calls them, the nearest first.
_RANK_AND_SIZE = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def is_exportable(v: str) -> bool:
    """Whether a variable of this name may be given to ranks."""
    return not any(re.match(pattern, v) for pattern in IGNORE_REGEXES)


def get_env_rank_and_size() -> tuple[int, int]:
    """This process's rank and the number of ranks as the launcher's variables have them; (0, 1)
    where there is no launcher."""
    for rank, size in _RANK_AND_SIZE:
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1
