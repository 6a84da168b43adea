# SPDX-License-Identifier: Apache-2.0
"""Small helpers that scripts and tests of the original import from here."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from horovod.common.basics import Average, Sum, basics
from horovod.common.exceptions import HorovodVersionMismatchError

T = TypeVar("T")

_FRAMEWORKS = {"pytorch": "torch", "torch": "torch", "tensorflow": "tensorflow", "keras": "keras"}
_OLDEST = {"torch": "2.1.0", "tensorflow": "2.16.0"}  # of the frameworks


def _cache(function: Callable[..., T]) -> Callable[..., T]:
    """Remembers results by positional arguments."""
    return functools.lru_cache(maxsize=None)(function)


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the front end of this name can be imported: nothing is compiled, so it needs only its
    framework, which is looked for and not imported."""
    module = _FRAMEWORKS.get(ext_base_name.lower())
    found = module is not None and importlib.util.find_spec(module) is not None
    if verbose:
        print(f"Checking whether {ext_base_name} is available: {found}")
    return found


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether this build takes GPU tensors, and the front end's framework sees a GPU."""
    found = basics.cuda_built() and extension_available(ext_base_name) and _sees_gpu(ext_base_name)
    if verbose:
        print(f"Checking whether {ext_base_name} has a GPU: {found}")
    return found


def _sees_gpu(ext_base_name: str) -> bool:
    module = importlib.import_module(_FRAMEWORKS[ext_base_name.lower()])
    if module.__name__ == "torch":
        return bool(module.cuda.is_available())
    return bool(importlib.import_module("tensorflow").config.list_physical_devices("GPU"))


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raises ImportError where the framework of a front end, such as horovod.torch, is missing."""
    if not extension_available(ext_name.rsplit(".", 1)[-1]):
        place = os.path.join(os.path.dirname(pkg_path), *args)
        raise ImportError(
            f"{ext_name}: its framework is not installed in this Python; nothing of horovod "
            f"needs to be rebuilt ({ext_env_var}, {place})"
        )


def check_installed_version(
    name: str, version: str, exception: BaseException | None = None
) -> None:
    """Raises HorovodVersionMismatchError where a framework is older than the oldest that works.
    `exception` becomes its cause."""
    oldest = _OLDEST.get(name)
    if oldest is not None and not is_version_greater_equal_than(version, oldest):
        raise HorovodVersionMismatchError(name, f"{oldest} or later", version) from exception


def get_ext_suffix() -> str:
    """What compiled modules of this Python end with; horovod has none."""
    return str(sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where a compiled module of a package would be."""
    *folders, module = args
    return os.path.join(os.path.dirname(pkg_path), *folders, module + get_ext_suffix())


def _told(name: str, found: int, verbose: bool) -> int:
    if verbose:
        print(f"Checking whether horovod was built with {name}: {bool(found)}")
    return found


def mpi_built(verbose: bool = False) -> bool:
    return bool(_told("MPI", basics.mpi_built(), verbose))


def gloo_built(verbose: bool = False) -> bool:
    return bool(_told("Gloo", basics.gloo_built(), verbose))


def nccl_built(verbose: bool = False) -> int:
    return _told("NCCL", basics.nccl_built(), verbose)


def ddl_built(verbose: bool = False) -> bool:
    return bool(_told("DDL", basics.ddl_built(), verbose))


def ccl_built(verbose: bool = False) -> bool:
    return bool(_told("CCL", basics.ccl_built(), verbose))


@contextlib.contextmanager
def env(**variables: str | None) -> Iterator[None]:
    """Sets environment variables, or removes those that are None, and puts them back at the end."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        _set_env(variables)
        yield
    finally:
        _set_env(before)


def _set_env(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def is_iterable(value: object) -> bool:
    try:
        iter(value)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True


def split_list(values: Sequence[T], parts: int) -> list[list[T]]:
    """Neighbours stay together; the first lists are longer by one where it does not come out even.
    No list is empty."""
    parts = max(1, min(parts, len(values)))
    short, longer = divmod(len(values), parts)
    starts = [i * short + min(i, longer) for i in range(parts + 1)]
    return [list(values[starts[i] : starts[i + 1]]) for i in range(parts)]


def is_version_greater_equal_than(version: str, target: str) -> bool:
    """Compares `major.minor.patch`; what follows the digits of a part is ignored."""
    if not all(_digits(part) for part in target.split(".")[:3]) or target.count(".") < 2:
        raise ValueError(f"the version to compare with is '{target}': use major.minor.patch")
    return _version_key(version) >= _version_key(target)


def _digits(part: str) -> str:
    kept = ""
    for character in part:
        if not character.isdigit():
            break
        kept += character
    return kept


def _version_key(version: str) -> list[int]:
    return [int(_digits(part) or 0) for part in version.split("+")[0].split(".")[:3]]


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def get_average_backwards_compatibility_fun(
    reduce_ops: Any,
) -> Callable[[int | None, bool | None], int]:
    """The function that turns the arguments `op` and the old `average` into an op."""

    def handle_average(op: int | None, average: bool | None) -> int:
        if op is not None:
            if average is not None:
                raise ValueError(
                    "The op parameter supersedes average. Please provide only one of them."
                )
            return op
        if average is not None:
            warnings.warn(
                "Parameter `average` has been replaced with `op` and will be removed",
                DeprecationWarning,
                stacklevel=3,
            )
            return Average if average else Sum
        return int(reduce_ops.Average)

    return handle_average
