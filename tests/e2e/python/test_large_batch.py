# SPDX-License-Identifier: Apache-2.0
"""horovod.torch.optim, step by step against the papers. Those of Keras are cases of test_keras."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
import pytest
from ranks import PROGRAMS, RunRanks

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
sys.path.insert(0, str(PROGRAMS))

import large_batch_papers as papers  # noqa: E402

from horovod.torch.optim import LAMB, LARS, RAdam, WarmupLR, scaled_lr, warmup_lr  # noqa: E402


def parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.from_numpy(value)) for value in papers.start()]


def check_steps(optimizer: torch.optim.Optimizer, expected: Iterable[list[np.ndarray]]) -> None:
    (group,) = optimizer.param_groups
    for step, (own, wanted) in enumerate(zip(papers.gradients(), expected, strict=True)):
        for parameter, gradient in zip(group["params"], own, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
        for parameter, value in zip(group["params"], wanted, strict=True):
            actual = parameter.detach().numpy()
            np.testing.assert_allclose(actual, value, 1e-6, err_msg=f"after step {step + 1}")


def test_lars_is_that_of_the_paper() -> None:
    check_steps(
        LARS(parameters(), lr=2.0, weight_decay=0.01, eeta=0.02),
        papers.lars(2.0, 0.9, 0.01, 0.02),
    )
    check_steps(
        LARS(parameters(), 1.0, 0.8, 0.0, nesterov=True), papers.lars(1.0, 0.8, 0.0, 0.001, True)
    )


def test_lars_without_adaptation_is_sgd() -> None:
    own, sgds = parameters(), parameters()
    lars = LARS([{"params": own, "adapt": False}], lr=0.1)
    sgd = torch.optim.SGD(sgds, lr=0.1, momentum=0.9)

    for gradients in papers.gradients():
        for mine, theirs, gradient in zip(own, sgds, gradients, strict=True):
            mine.grad, theirs.grad = torch.from_numpy(gradient), torch.from_numpy(gradient)
        lars.step()
        sgd.step()

    for mine, theirs in zip(own, sgds, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_lamb_is_that_of_the_paper() -> None:
    check_steps(
        LAMB(parameters(), lr=0.05, weight_decay=0.1), papers.lamb(0.05, 0.9, 0.999, 1e-6, 0.1)
    )
    check_steps(LAMB(parameters(), 0.05, betas=(0.5, 0.9)), papers.lamb(0.05, 0.5, 0.9, 1e-6, 0.0))


def test_radam_is_that_of_the_paper() -> None:
    rates = [0.1] * papers.STEPS
    check_steps(RAdam(parameters(), lr=0.1, eps=0.0), papers.radam(rates, 0.9, 0.999))
    check_steps(
        RAdam(parameters(), 0.1, betas=(0.8, 0.9), eps=0.0, sma_threshold=5.0),
        papers.radam(rates, 0.8, 0.9, 5.0),
    )


def test_radams_rate_rises_and_falls() -> None:
    optimizer = RAdam(
        parameters(), lr=0.2, eps=0.0, total_steps=10, warmup_proportion=0.4, min_lr=0.01
    )

    check_steps(optimizer, papers.radam(papers.ramp(0.2, 10, 0.4, 0.01), 0.9, 0.999))


def test_radam_is_torchs_where_it_begins_to_rectify_at_5() -> None:
    own, theirs = parameters(), parameters()
    mine = RAdam(own, lr=0.1, sma_threshold=5.0, eps=0.0)
    other = torch.optim.RAdam(theirs, lr=0.1, eps=0.0)

    for gradients in papers.gradients():
        for one, two, gradient in zip(own, theirs, gradients, strict=True):
            one.grad, two.grad = torch.from_numpy(gradient), torch.from_numpy(gradient)
        mine.step()
        other.step()

    for one, two in zip(own, theirs, strict=True):
        torch.testing.assert_close(one, two)


def test_rates_follow_the_ranks() -> None:
    assert scaled_lr(0.1, size=4) == 0.4
    assert scaled_lr(0.1, rule="sqrt", size=4) == 0.2
    with pytest.raises(ValueError, match="'linear'"):
        scaled_lr(0.1, rule="square", size=4)
    optimizer = torch.optim.SGD(parameters(), lr=0.4)
    schedule = WarmupLR(optimizer, warmup_steps=4, size=3)
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()

    np.testing.assert_allclose(rates, [0.2, 0.8 / 3, 1 / 3, 0.4, 0.4, 0.4])
    np.testing.assert_allclose(rates, [warmup_lr(step, 0.4, 4, size=3) for step in range(6)])


def test_jobs(run_ranks: RunRanks) -> None:
    """The optimizers distributed, and local_first, with two ranks."""
    job = run_ranks(2, "torch_large_batch.py")

    assert job.exit_code == 0, job
    cases = ["they_are_distributed", "local_rank_0_is_first", "a_block_that_raises_lets_others_in"]
    for rank in range(2):
        assert job.lines(rank) == [f"ok {case}" for case in cases], job
