#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays an installed prefix out as an unpacked wheel, for `wheel pack`. Called by wheel.sh.

usage: pack_wheel.py PREFIX FOLDER      prints the wheel's folder in FOLDER, and
that of sparkdl's wheel; run in the root

What pip then puts into an environment has the same layout as the prefix (see HvdInstall.cmake).
"""

import pathlib
import shutil
import sys

import tomllib

# Debian packages whose code is linked into the programs, and whose licences must go with it: those
# of headers and of static libraries, the C library of what is linked -static included.
LINKED = (
    "libboost1.81-dev",
    "libc6-dev",
    "libfmt-dev",
    "libgcc-12-dev",
    "libhwy-dev",
    "libsodium-dev",
    "libspdlog-dev",
    "libssh2-1-dev",
    "libssl-dev",
    "libstdc++-12-dev",
    "libyaml-cpp-dev",
    "nlohmann-json3-dev",
    "zlib1g-dev",
)
# Texts that those only refer to. The Apache licence is our own.
COMMON = ("GPL-3", "LGPL-2.1")
WHEEL = """\
Wheel-Version: 1.0
Generator: horovod scripts/wheel.sh
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""


# The names of Databricks, as a wheel of their own: it overwrites no other sparkdl unasked.
SPARKDL_WHEEL = """\
Wheel-Version: 1.0
Generator: horovod scripts/wheel.sh
Root-Is-Purelib: true
Tag: py3-none-any
"""
SPARKDL_METADATA = """\
Metadata-Version: 2.4
Name: sparkdl
Version: {version}
Summary: HorovodRunner under the names of Databricks, by horovod.spark
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: {python}
Requires-Dist: horovod[spark]=={version}
"""


def pack_sparkdl(folder: pathlib.Path, version: str, python: str) -> pathlib.Path:
    root = folder / f"sparkdl-{version}"
    shutil.rmtree(root, ignore_errors=True)
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree("runtime/python/sparkdl/sparkdl", root / "sparkdl", ignore=without_caches)
    info = root / f"sparkdl-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    shutil.copy("LICENSE", info / "licenses/LICENSE")
    (info / "METADATA").write_text(SPARKDL_METADATA.format(version=version, python=python))
    (info / "WHEEL").write_text(SPARKDL_WHEEL)
    return root


def metadata(project: dict, version: str, licenses: list[str]) -> str:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {name}" for name in licenses),
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        *(f"Requires-Dist: {name}" for name in project["dependencies"]),
        *(
            line
            for extra, names in project["optional-dependencies"].items()
            for line in (
                f"Provides-Extra: {extra}",
                *(f"Requires-Dist: {name}; extra == '{extra}'" for name in names),
            )
        ),
    ]
    return "\n".join(lines) + "\n"


def copy_licenses(folder: pathlib.Path) -> list[str]:
    folder.mkdir()
    shutil.copy("LICENSE", folder / "LICENSE")
    for package in LINKED:
        shutil.copy(f"/usr/share/doc/{package}/copyright", folder / f"LICENSE.{package}")
    for name in COMMON:
        shutil.copy(f"/usr/share/common-licenses/{name}", folder / f"LICENSE.{name}")
    return sorted(file.name for file in folder.iterdir())


def main(argv: list[str]) -> int:
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    prefix, folder = map(pathlib.Path, argv[1:])
    project = tomllib.loads(pathlib.Path("runtime/python/pyproject.toml").read_text())["project"]
    version = pathlib.Path("VERSION").read_text().strip()
    name = f"{project['name']}-{version}"
    root = folder / name
    shutil.rmtree(root, ignore_errors=True)

    (package,) = prefix.glob("lib/python*/site-packages/horovod")
    shutil.copytree(package, root / "horovod", ignore=shutil.ignore_patterns("__pycache__"))
    # All below data, the environment's root: programs keep their place beside ../lib here too,
    # where auditwheel follows their RUNPATH.
    data = root / f"{name}.data/data"
    without_python = shutil.ignore_patterns("python*")
    for part in ("bin", "include", "lib", "libexec", "share"):
        shutil.copytree(prefix / part, data / part, ignore=without_python)

    info = root / f"{name}.dist-info"
    info.mkdir()
    licenses = copy_licenses(info / "licenses")
    (info / "METADATA").write_text(metadata(project, version, licenses))
    (info / "WHEEL").write_text(WHEEL)
    print(root)
    print(pack_sparkdl(folder, version, project["requires-python"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
