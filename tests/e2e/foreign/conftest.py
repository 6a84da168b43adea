# SPDX-License-Identifier: Apache-2.0
"""A Slurm for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from foreign.slurm import Slurm
from support.hosts import Lab, why_not


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    if reason := why_not():
        pytest.skip(reason)
    with Lab(2) as lab:
        yield Slurm(lab)
