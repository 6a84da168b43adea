# SPDX-License-Identifier: Apache-2.0
"""The environment that a launcher gives to ranks."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]

# Variables of one host or one shell, which ranks elsewhere do not get.
IGNORE_REGEXES = {r"BASH_FUNC_.*\(\)", "BASH_FUNC_.*%%", "OLDPWD", ".*_SECRET_KEY"}
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"

# Each launcher's names of rank and size, and a variable that it alone sets; the nearest first.
_OURS = ("HOROVOD_RANK", "HOROVOD_SIZE")
_RANK_AND_SIZE = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
)


def is_exportable(v: str) -> bool:
    """Whether a variable of this name may be given to ranks."""
    return not any(re.match(pattern, v) for pattern in IGNORE_REGEXES)


def get_env_rank_and_size() -> tuple[int, int]:
    """This process's rank and the number of ranks as the innermost launcher's variables have them;
    (0, 1) where there is no launcher."""
    record = os.environ.get("HOROVOD_LAUNCHER_VARIABLES")
    for names in _RANK_AND_SIZE if record is not None else ():
        if _are_set(names) and any(_is_changed(name, record) for name in names):
            return _numbers(names)
    for names in (_OURS, *_RANK_AND_SIZE):
        if _are_set(names):
            return _numbers(names)
    return 0, 1


def _is_changed(name: str, record: str) -> bool:
    """Whether a launcher inside of the rank has set it: horovodrun left another value, or none."""
    return f"{name}={quote(os.environ[name], safe='')}" not in record.split(";")


def _are_set(names: tuple[str, ...]) -> bool:
    return all(name in os.environ for name in names)


def _numbers(names: tuple[str, ...]) -> tuple[int, int]:
    rank, size, *_ = names
    return int(os.environ[rank]), int(os.environ[size])
