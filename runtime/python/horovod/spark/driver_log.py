# SPDX-License-Identifier: Apache-2.0
"""Messages of ranks to the driver: marked lines of their standard output."""

from __future__ import annotations

import sys
from typing import TextIO

_MARK = "\x1elog_to_driver:"
_LONGEST = 4000  # characters, as on Databricks


def log_to_driver(message: str) -> None:
    """Shows the message in the driver's output, from any rank. At most 4000 characters are."""
    text = str(message)[:_LONGEST]
    sys.stdout.write("".join(f"{_MARK}{line}\n" for line in text.splitlines() or [""]))
    sys.stdout.flush()


class DriverLog:
    """A stream of the driver, as HorovodRunner writes to it: all lines, or only messages and what
    horovodrun says itself."""

    def __init__(self, stream: TextIO, shows_all: bool) -> None:
        self._stream = stream
        self._shows_all = shows_all
        self._line = ""  # as far as it has come

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            before, mark, message = line.partition(_MARK)
            if mark:
                self._stream.write(message + "\n")
            elif self._shows_all or not before.startswith("[1,"):
                self._stream.write(before + "\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()
