# SPDX-License-Identifier: Apache-2.0
"""The arguments of horovod.run as flags of horovodrun, which checks their values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from horovod.common import elastic

# The old spelling of an argument, and the current one.
_RENAMED = {
    "np": "num_proc",
    "min_np": "min_num_proc",
    "max_np": "max_num_proc",
    "network_interface": "network_interfaces",
}
_ELASTIC = (
    "min_num_proc",
    "max_num_proc",
    "slots",
    "reset_limit",
    "cooldown_range",
    "host_discovery_script",
)
# Their flags take a value.
_VALUES = {
    "num_proc": "-np",
    "hosts": "--hosts",
    "hostfile": "--hostfile",
    "start_timeout": "--start-timeout",
    "ssh_port": "--ssh-port",
    "ssh_identity_file": "--ssh-identity-file",
    "output_filename": "--output-filename",
    "mpi_args": "--mpi-args",
    "network_interfaces": "--network-interfaces",
    "show": "--show",
}
# Their flags stand alone.
_SWITCHES = {
    "disable_cache": "--disable-cache",
    "verbose": "--verbose",
    "use_gloo": "--gloo",
    "use_mpi": "--mpi",
}


def launcher_flags(fn: Callable[..., Any], arguments: Mapping[str, Any]) -> list[str]:
    """`arguments` by their names; None is as if it was not there. An old spelling is a
    DeprecationWarning and wins, as in the original. The error of an elastic
    argument names `fn`."""
    given = _current_names(arguments)
    unknown = given.keys() - {*_VALUES, *_SWITCHES, *_ELASTIC}
    if unknown:
        raise TypeError(f"horovod.run has no argument {', '.join(sorted(unknown))}")
    if given.keys() & set(_ELASTIC):
        elastic.run(fn)  # raises
    if {"hosts", "hostfile"} <= given.keys():
        raise ValueError("hosts and hostfile name the same thing: leave one of them out")
    # One word each, so that a value that begins with a dash is no flag.
    values = [f"{_VALUES[name]}={_text(given[name])}" for name in _VALUES if name in given]
    values.append(f"--progress-bars={_text(given.get('show', 0))}")
    return values + [_SWITCHES[name] for name in _SWITCHES if given.get(name)]


def _current_names(arguments: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in arguments.items() if value is not None}
    for old, current in _RENAMED.items():
        if old in given:
            warnings.warn(
                f"horovod.run({old}=) is deprecated: use {current}=",
                DeprecationWarning,
                stacklevel=4,  # the caller of horovod.run
            )
            given[current] = given.pop(old)
    return given


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
