# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts for a test, taken down when it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from support.hosts import HostOptions, Lab, why_not


@pytest.fixture(scope="session")
def can_have_hosts() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def lab(can_have_hosts: None) -> Iterator[Callable[..., Lab]]:
    """lab(4, {2: HostOptions(...)}): four hosts, the second of them different."""
    with contextlib.ExitStack() as stack:

        def make(count: int, options: dict[int, HostOptions] | None = None) -> Lab:
            return stack.enter_context(Lab(count, options))

        yield make


@pytest.fixture
def cluster(lab: Callable[..., Lab], horovodrun: Path) -> Callable[..., Cluster]:
    """cluster(4, {...}): the same, to start jobs on the first of them."""
    return lambda *arguments: Cluster(lab(*arguments), horovodrun)
