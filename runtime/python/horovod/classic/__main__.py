# SPDX-License-Identifier: Apache-2.0
"""python -m horovod.classic [--data DIR] SCRIPT [ARGUMENT...]"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from horovod.classic import enable


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m horovod.classic",
        description="Runs a script that was written for Keras 2 and TensorFlow 1.",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="a folder with the files that the script would download, such as mnist.npz",
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.script.is_file():
        parser.error(f"there is no script {arguments.script}")
    if arguments.data is not None and not arguments.data.is_dir():
        parser.error(f"--data {arguments.data}: there is no such folder")
    return arguments


def main() -> None:
    arguments = _parse()
    try:
        enable(arguments.data)
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    sys.argv = [str(arguments.script), *arguments.arguments]
    sys.path[0] = str(arguments.script.resolve().parent)
    runpy.run_path(str(arguments.script), run_name="__main__")


if __name__ == "__main__":
    main()
