# SPDX-License-Identifier: Apache-2.0
"""Tells the launcher what this process runs on, so that it can name hosts that differ."""

from __future__ import annotations

import platform
import sys

from horovod.common.library import library

_REPORT_VERSIONS = library.enum("HVD_REPORT_VERSIONS")
_NO_PEER = -1
_FRAMEWORKS = ("torch", "tensorflow", "keras", "tf_keras", "jax", "numpy")


def tell_versions() -> None:
    """Names what is imported already, and imports nothing."""
    lines = [f"Python {platform.python_version()}"]
    for name in _FRAMEWORKS:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            lines.append(f"{name} {version}")
    library.hvd_report(_REPORT_VERSIONS, _NO_PEER, "\n".join(lines).encode())
