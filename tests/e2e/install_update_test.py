# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` over an earlier version removes, and what it leaves alone."""

from __future__ import annotations

import subprocess


def install(root, source, folder, files) -> None:
    script = root / "scripts/cmake/RemoveStalePython.cmake"
    flags = (f"-Dsource={source}", f"-Dfolder={folder}", f"-Dlist={files}")
    subprocess.run(("cmake", *flags, "-P", script), check=True, capture_output=True, timeout=60)
    for file in source.rglob("*.py"):
        copy = folder / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())


def write(*files) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")


def test_modules_that_are_no_more_are_removed_and_nothing_else(root, tmp_path):
    source, folder = tmp_path / "source", tmp_path / "site-packages/horovod"
    files = tmp_path / "lib/cmake/hvd/python-files.txt"
    kept, stale = source / "torch/__init__.py", source / "old/deep/mpi_ops.py"
    write(kept, stale, source / "gone.py")
    install(root, source, folder, files)
    caches = [
        folder / "__pycache__/gone.cpython-311.pyc",
        folder / "__pycache__/new.cpython-311.pyc",
    ]
    others = [folder / "local_settings.py", folder / "data.bin", tmp_path / "site-packages/x.py"]
    write(*caches, *others, folder / "old/deep/__pycache__/mpi_ops.cpython-311.pyc")
    with files.open("a") as listed:
        listed.write("../x.py\n")  # no list may lead out of the folder

    stale.unlink()
    (source / "gone.py").unlink()
    write(source / "new.py")
    install(root, source, folder, files)

    left = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert left == {
        "torch/__init__.py",
        "new.py",
        "local_settings.py",
        "data.bin",
        "__pycache__/new.cpython-311.pyc",
    }
    assert not (folder / "old").exists()
    assert others[2].exists()
    assert sorted(files.read_text().split()) == ["new.py", "torch/__init__.py"]
