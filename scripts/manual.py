#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the chapter about flags into the user manual, from the program's own table.

usage: manual.py [HOROVODRUN]      build/release/bin/horovodrun; tests/e2e/manual_test.py compares
"""

import pathlib
import re
import subprocess
import sys

MANUAL = pathlib.Path(__file__).resolve().parents[1] / "apps/horovodrun/README.md"


def main(argv: list[str]) -> int:
    program = argv[1] if len(argv) > 1 else "build/release/bin/horovodrun"
    command = [program, "--help", "markdown"]
    chapter = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = MANUAL.read_text()
    start = re.search(r"^## Flags\n\n", text, re.MULTILINE).end()
    end = text.index("\n## ", start)
    MANUAL.write_text(text[:start] + chapter + text[end:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
