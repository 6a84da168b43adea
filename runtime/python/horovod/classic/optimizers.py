# SPDX-License-Identifier: Apache-2.0
"""The optimizers of Keras 2, with its arguments in its order and its defaults."""

from __future__ import annotations

from typing import Any

from tf_keras.optimizers import legacy


def _settings(kwargs: dict[str, Any], lr: float, epsilon: float | None = None) -> dict[str, Any]:
    """What tf_keras calls them. `learning_rate` comes from a config."""
    made = {"learning_rate": lr, **kwargs}
    if epsilon is not None:
        made["epsilon"] = epsilon
    return made


class SGD(legacy.SGD):  # type: ignore[misc]
    def __init__(
        self,
        lr: float = 0.01,
        momentum: float = 0.0,
        decay: float = 0.0,
        nesterov: bool = False,
        **kwargs: Any,
    ) -> None:
        settings = {"momentum": momentum, "nesterov": nesterov, "decay": decay}
        super().__init__(**settings, **_settings(kwargs, lr))


class RMSprop(legacy.RMSprop):  # type: ignore[misc]
    def __init__(
        self,
        lr: float = 0.001,
        rho: float = 0.9,
        epsilon: float | None = None,
        decay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(rho=rho, decay=decay, **_settings(kwargs, lr, epsilon))


class Adagrad(legacy.Adagrad):  # type: ignore[misc]
    def __init__(
        self, lr: float = 0.01, epsilon: float | None = None, decay: float = 0.0, **kwargs: Any
    ) -> None:
        kwargs.setdefault("initial_accumulator_value", 0.0)
        super().__init__(decay=decay, **_settings(kwargs, lr, epsilon))


class Adadelta(legacy.Adadelta):  # type: ignore[misc]
    def __init__(
        self,
        lr: float = 1.0,
        rho: float = 0.95,
        epsilon: float | None = None,
        decay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(rho=rho, decay=decay, **_settings(kwargs, lr, epsilon))


class Adam(legacy.Adam):  # type: ignore[misc]
    def __init__(
        self,
        lr: float = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = None,
        decay: float = 0.0,
        amsgrad: bool = False,
        **kwargs: Any,
    ) -> None:
        settings = {"beta_1": beta_1, "beta_2": beta_2, "amsgrad": amsgrad, "decay": decay}
        super().__init__(**settings, **_settings(kwargs, lr, epsilon))


class Adamax(legacy.Adamax):  # type: ignore[misc]
    def __init__(
        self,
        lr: float = 0.002,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = None,
        decay: float = 0.0,
        **kwargs: Any,
    ) -> None:
        settings = {"beta_1": beta_1, "beta_2": beta_2, "decay": decay}
        super().__init__(**settings, **_settings(kwargs, lr, epsilon))


class Nadam(legacy.Nadam):  # type: ignore[misc]
    def __init__(
        self,
        lr: float = 0.002,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = None,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        settings = {"beta_1": beta_1, "beta_2": beta_2, "schedule_decay": schedule_decay}
        # A config of it has the schedule's decay as "decay".
        settings["schedule_decay"] = kwargs.pop("decay", schedule_decay)
        super().__init__(**settings, **_settings(kwargs, lr, epsilon))


BY_NAME: dict[str, type] = {
    kind.__name__: kind for kind in (SGD, RMSprop, Adagrad, Adadelta, Adam, Adamax, Nadam)
}


def of_name(name: str) -> Any:
    """A new optimizer from a string of compile(), or the string where it is of another kind."""
    kinds = {known.lower(): kind for known, kind in BY_NAME.items()}
    kind = kinds.get(name.lower())
    return name if kind is None else kind()
