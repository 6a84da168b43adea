# SPDX-License-Identifier: Apache-2.0
"""The exceptions that scripts catch."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """An operation failed: the ranks disagree about it, or another rank is gone.

    `peer_lost` is true where this rank fails only because of another one.
    """

    peer_lost: bool = False


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of the job changed, and training should start over from its last commit.

    `skip_sync` is true where the change needs no synchronisation of the state.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job changed")
        self.skip_sync = skip_sync


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    return (
        f"this horovod package needs {name} {version}, but {installed_version} is installed: "
        f"install both from the same build"
    )


class HorovodVersionMismatchError(ImportError):
    """Two parts that must come from one build do not."""

    def __init__(self, name: str, version: str, installed_version: str) -> None:
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
