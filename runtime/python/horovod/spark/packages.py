# SPDX-License-Identifier: Apache-2.0
"""The packages that Spark jobs need and `horovod` alone does not."""

from __future__ import annotations

import importlib.util


def require(*names: str) -> None:
    """Raises where one of the packages is missing, with the command that installs it."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(
                f"horovod.spark needs {name}: pip install horovod[spark]", name=name
            )
