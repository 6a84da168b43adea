# SPDX-License-Identifier: Apache-2.0
"""The data that scripts download, from a folder: that of --data, or Debian's Fashion-MNIST."""

from __future__ import annotations

import gzip
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlparse

import numpy as np

from horovod.classic.report import substitution

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
Part = tuple[np.ndarray, np.ndarray]


class _Given:
    """What --data says."""

    folder: Path | None = None


def use(folder: Path | None) -> None:
    """Data is looked for in `folder` from now on, also what the script gets by urlretrieve."""
    _Given.folder = folder
    if folder is not None:
        urllib.request.urlretrieve = _urlretrieve(urllib.request.urlretrieve)


def _find(file: str) -> Path | None:
    found = None if _Given.folder is None else _Given.folder / file
    return found if found is not None and found.is_file() else None


def _read_idx(path: Path) -> np.ndarray:
    """A file of the IDX format: two zeros, the type (8: bytes), the dimensions, their sizes."""
    data = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape).copy()


def _load(name: str) -> tuple[Part, Part]:
    """The training part and the test part: images and labels."""
    call = f"keras.datasets.{name}.load_data()"
    archive = _find(f"{name}.npz")
    if archive is not None:
        substitution(call, f"read from {archive}")
        with np.load(archive) as arrays:
            train, test = ((arrays[f"x_{one}"], arrays[f"y_{one}"]) for one in ("train", "test"))
            return train, test
    given = _Given.folder
    folders = [DEBIAN] if given is None else [given / name, given / name.replace("_", "-"), given]
    for folder in folders:
        if (folder / "train-images-idx3-ubyte.gz").is_file():
            break
    else:
        remedy = (
            "apt-get install dataset-fashion-mnist, or give a folder with --data"
            if given is None
            else f"put {name}.npz or train-images-idx3-ubyte.gz and its three companions there"
        )
        raise FileNotFoundError(f"no data for {name} in {folders[-1]}: {remedy}")

    substitution(call, f"read from {folder}")

    def part(split: str) -> Part:
        images = _read_idx(folder / f"{split}-images-idx3-ubyte.gz")
        return images, _read_idx(folder / f"{split}-labels-idx1-ubyte.gz")

    return part("train"), part("t10k")


def mnist(path: str = "mnist.npz") -> tuple[Part, Part]:
    """keras.datasets.mnist.load_data."""
    return _load("mnist")


def fashion_mnist() -> tuple[Part, Part]:
    """keras.datasets.fashion_mnist.load_data."""
    return _load("fashion_mnist")


def get_file(fname: str, *args: Any, **kwargs: Any) -> str:
    """keras.utils.get_file: the file in the folder of --data, else as always."""
    found = _find(fname) if fname else None
    if found is not None:
        return str(found)
    from tf_keras.src.utils import data_utils

    return str(data_utils.get_file(fname, *args, **kwargs))


def _urlretrieve(original: Callable[..., Any]) -> Callable[..., Any]:
    def urlretrieve(url: str, filename: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = _find(PurePosixPath(urlparse(url).path).name)
        if found is None:
            return original(url, filename, *args, **kwargs)
        substitution(url, str(found))
        if filename is None:
            return str(found), None
        shutil.copyfile(found, filename)
        return filename, None

    return urlretrieve
