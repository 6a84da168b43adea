# SPDX-License-Identifier: Apache-2.0
"""Ranks that end in order, though they say nothing."""

from __future__ import annotations

import pytest
import wording


@pytest.mark.parametrize("elements", [1, 1_000_000])
@pytest.mark.parametrize("stayer", [0, 1])
@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_a_c_program_that_returns_from_main_makes_no_peer_report_a_death(
    launcher, return_from_main, transport, stayer, elements
):
    env = {"HOROVOD_CPU_OPERATIONS": "tcp"} if transport == "tcp" else {}

    job = launcher.run("-np", 3, return_from_main, stayer, elements, env=env)

    assert job.code == 0 and wording.HAS_DIED not in job.stderr, job
    assert job.lines_of(stayer) == ["stayed"], job
