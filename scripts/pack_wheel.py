#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays an installed prefix out as an unpacked wheel, for `wheel pack`. Called by wheel.sh.

usage: pack_wheel.py PREFIX PYPROJECT VERSION_FILE FOLDER      prints the wheel's folder in FOLDER

What pip then puts into an environment has the same layout as the prefix (see HvdInstall.cmake).
"""

import pathlib
import shutil
import sys

import tomllib

WHEEL = """\
Wheel-Version: 1.0
Generator: horovod scripts/wheel.sh
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""


def metadata(project: dict, version: str) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        *(f"Requires-Dist: {name}" for name in project["dependencies"]),
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    if len(argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    prefix, pyproject, version_file, folder = map(pathlib.Path, argv[1:])
    project = tomllib.loads(pyproject.read_text())["project"]
    version = version_file.read_text().strip()
    name = f"{project['name']}-{version}"
    root = folder / name
    shutil.rmtree(root, ignore_errors=True)

    (package,) = prefix.glob("lib/python*/site-packages/horovod")
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, root / "horovod", ignore=skip)
    data = root / f"{name}.data"
    shutil.copytree(prefix / "bin", data / "scripts")
    for part in ("include", "libexec"):
        shutil.copytree(prefix / part, data / "data" / part)
    without_python = shutil.ignore_patterns("python*")
    shutil.copytree(prefix / "lib", data / "data" / "lib", ignore=without_python)

    info = root / f"{name}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata(project, version))
    (info / "WHEEL").write_text(WHEEL)
    print(root)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
