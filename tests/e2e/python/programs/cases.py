# SPDX-License-Identifier: Apache-2.0
"""A program of named cases, each run by all ranks in order; a rank prints `ok NAME` after each."""

from __future__ import annotations

import sys
from collections.abc import Callable

_cases: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    _cases[function.__name__] = function
    return function


def names() -> list[str]:
    return list(_cases)


def run(wanted: list[str] | None = None) -> None:
    """Runs the cases named on the command line, or all."""
    for name in wanted or sys.argv[1:] or names():
        _cases[name]()
        # One write: unbuffered, print writes piece by piece, and mpirun mixes the ranks' pieces.
        print(f"ok {name}\n", end="", flush=True)


def raises(kind: type[BaseException], function: Callable[[], object]) -> str:
    """Calls it and returns the message of what it must raise."""
    try:
        result = function()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}, but {result!r}")
