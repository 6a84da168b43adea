# SPDX-License-Identifier: Apache-2.0
"""The arguments of DistributedOptimizer, checked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from horovod.common import operations
from horovod.common.process_sets import ProcessSet, process_set_id
from horovod.common.util import split_list


def has_peers(process_set: ProcessSet) -> bool:
    """Whether this rank is a member, and not the only one, or may get peers later, as in an elastic
    job. Raises ValueError outside of a world, and for a set that belongs to none."""
    operations.context()
    process_set_id(process_set)
    may_grow = os.environ.get("HOROVOD_ELASTIC") == "1"
    return bool(process_set.included()) and (may_grow or (process_set.size() or 1) > 1)


def named_parameters_of(
    optimizer: torch.optim.Optimizer, names: Mapping[torch.nn.Parameter, str]
) -> Iterator[tuple[torch.nn.Parameter, str]]:
    """All parameters; what has no name goes by its place."""
    for group_index, group in enumerate(optimizer.param_groups):
        for index, parameter in enumerate(group["params"]):
            yield parameter, names.get(parameter) or f"noname.{group_index}.{index}"


def check_passes(passes: int) -> None:
    if passes <= 0:
        raise ValueError(f"backward_passes_per_step is {passes}: it must be greater than 0")


def names_of(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]]
) -> dict[torch.nn.Parameter, str]:
    """Checks what the user gave; every parameter of the optimizer needs a name of its own."""
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: "
            f"{', '.join(twice)}"
        )
    names = {parameter: name for name, parameter in pairs}
    unnamed = [
        f"{group_index}.{index} of shape {list(parameter.shape)}"
        for group_index, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
        if parameter not in names
    ]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named: "
            f"parameters (group.index) {', '.join(unnamed)}"
        )
    return names


def check_groups(
    parameters: Sequence[torch.nn.Parameter],
    groups: Sequence[Sequence[torch.nn.Parameter]] | int | None,
) -> list[list[torch.nn.Parameter]]:
    """The lists of parameters whose gradients travel as a unit."""
    if groups is None or (isinstance(groups, int) and groups == 0):
        return []
    if isinstance(groups, int) and groups > 0:
        return split_list(parameters, groups)
    if not isinstance(groups, list) or not all(isinstance(one, list | tuple) for one in groups):
        raise ValueError(
            f"groups should be a positive number or a list of lists of parameters, not {groups!r}"
        )
    members = [parameter for group in groups for parameter in group]
    if not all(isinstance(parameter, torch.Tensor) for parameter in members):
        raise ValueError("groups must consist of lists of torch.Tensor")
    if len(members) != len(set(members)):
        raise ValueError("groups name a parameter twice: each may be in one group only")
    return [list(group) for group in groups]
