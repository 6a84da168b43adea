# SPDX-License-Identifier: Apache-2.0
"""Modules under their old names: each looks up names where they are now, and says so."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from horovod.classic.removed import name_error
from horovod.classic.report import substitution

Lookup = Callable[[str], Any]


class View(ModuleType):
    """A module whose names are looked up when the script first uses them.

    `find` gets a name and raises AttributeError where it does not exist; `label` is what the
    script calls the module.
    """

    def __init__(self, name: str, label: str, find: Lookup) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._hvd_label = label
        self._hvd_find = find

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        try:
            value = self._hvd_find(name)
        except AttributeError as error:
            removed = name_error(f"{self._hvd_label}.{name}")
            raise removed from error
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """For a function that travels to ranks, which have the same views."""
        from horovod.classic.imports import view_called

        return view_called, (self._hvd_label,)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *getattr(self._hvd_find, "names", list)()})


class ModuleLookup:
    """Names of `module`, which the script calls `label`. Modules in it become views as well.

    Where `modern` is given, only names that mean something else there are reported.
    """

    def __init__(
        self,
        label: str,
        module: ModuleType,
        now: str,
        modern: Any = None,
        own: dict[str, Lookup] | None = None,
    ) -> None:
        self._label = label
        self._module = module
        self._now = now
        self._modern = modern
        self._own = own or {}

    def names(self) -> list[str]:
        return [*self._own, *dir(self._module)]

    def __call__(self, name: str) -> Any:
        label = f"{self._label}.{name}"
        if name in self._own:
            return self._own[name](label)
        value = getattr(self._module, name)
        other = getattr(self._modern, name, None)
        if isinstance(value, ModuleType) and not isinstance(value, View):
            lookup = ModuleLookup(label, value, f"{self._now}.{name}", other)
            return View(value.__name__, label, lookup)
        if value is not other and not name.startswith("__"):
            substitution(label, f"{self._now}.{name}")
        return value
