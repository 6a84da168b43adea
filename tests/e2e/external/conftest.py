# SPDX-License-Identifier: Apache-2.0
"""Two simulated hosts, and a Slurm between whose nodes there is no SSH, for this folder's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from external.slurm import Slurm
from support.hosts import HostOptions, Lab, why_not


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two hosts."""
    if reason := why_not():
        pytest.skip(reason)
    with Lab(2) as lab:
        yield lab


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    if reason := why_not():
        pytest.skip(reason)
    with Lab(2, {number: HostOptions(sshd=False) for number in (1, 2)}) as lab:
        yield Slurm(lab)
