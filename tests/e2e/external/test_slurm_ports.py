# SPDX-License-Identifier: Apache-2.0
"""--port-range in an allocation of a real Slurm."""

from __future__ import annotations

import re
from pathlib import Path

from external.slurm import SRUN_PORTS, Slurm
from external.worlds import ROLL_CALL
from support.hosts.listeners import watched

PORTS = range(21000, 21020)


def test_what_listens_is_within_the_range(slurm: Slurm, horovodrun: Path) -> None:
    # Those of the second node come late, so that those of the first are seen to listen.
    late = (
        f"[ $HOROVOD_CROSS_RANK = 0 ] || sleep 1; echo master $MASTER_PORT; {' '.join(ROLL_CALL)}"
    )
    with watched(slurm.nodes) as seen:
        batch = slurm.sbatch(
            f"exec {horovodrun} --port-range {PORTS[0]}-{PORTS[-1]} sh -c '{late}'",
            *("-N2", "--ntasks-per-node=2"),
        )
        batch.wait()

    assert batch.state() == "COMPLETED", batch.output()
    ours = seen - set(SRUN_PORTS)
    assert len(ours) > 1, "horovodrun for its agents, and ranks"
    assert ours <= set(PORTS), sorted(ours)
    assert {int(port) for port in re.findall(r"master (\d+)", batch.output())} <= set(PORTS)
