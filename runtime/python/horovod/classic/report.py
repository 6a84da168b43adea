# SPDX-License-Identifier: Apache-2.0
"""What rank 0 prints about names of the script, and where in the script a name is used."""

from __future__ import annotations

import sys

from horovod.runner.common.util.env import get_env_rank_and_size

_FRAMEWORKS = ("horovod", "importlib", "tensorflow", "tf_keras")
_said: set[str] = set()


def place() -> str:
    """File and line of the code that is neither ours, nor a framework's, nor Python's imports."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        package = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if package not in _FRAMEWORKS:
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def substitution(old: str, new: str) -> None:
    """Rank 0 prints, once, what stands for a name."""
    if old in _said:
        return
    _said.add(old)
    if get_env_rank_and_size()[0] == 0:
        print(f"horovod.classic: {place()}: {old} is {new}", file=sys.stderr, flush=True)
