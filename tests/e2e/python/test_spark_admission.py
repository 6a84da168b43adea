# SPDX-License-Identifier: Apache-2.0
"""How the token of a job gets to a task of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from horovod.spark.admission import Admission, AdmissionError, Ticket


class TestAdmission:
    """With a driver that has two ranks to place."""

    @pytest.fixture
    def admission(self) -> Iterator[Admission]:
        self.restarts = 0

        def restarted() -> None:
            self.restarts += 1

        admission = Admission("127.0.0.1", "127.0.0.1", "the token", 2, restarted)
        yield admission
        admission.close()

    def test_a_task_gets_it_once(self, admission: Admission) -> None:
        assert admission.ticket.redeem(0, 1) == "the token"
        with pytest.raises(AdmissionError, match="started the stage again"):
            admission.ticket.redeem(0, 1)
        assert self.restarts == 1

    def test_nobody_gets_it_when_all_ranks_have_come(self, admission: Admission) -> None:
        assert admission.ticket.redeem(1, 2) == "the token"
        with pytest.raises(AdmissionError, match="started the stage again"):
            admission.ticket.redeem(0, 1)

    def test_nobody_gets_it_without_the_key(self, admission: Admission) -> None:
        other = Ticket("127.0.0.1", admission.ticket.port, bytes(32))
        with pytest.raises(AdmissionError, match="no task of the stage"):
            other.redeem(0, 1)
        assert self.restarts == 0
        assert admission.ticket.redeem(0, 1) == "the token"

    def test_the_ticket_does_not_open_recorded_traffic(self, admission: Admission) -> None:
        """Two exchanges with the same key have nothing in common."""
        assert "key" not in repr(admission.ticket)
        assert b"the token" not in admission.answer(bytes(76))
