# SPDX-License-Identifier: Apache-2.0
"""horovodrun --mpi over two simulated hosts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

import pytest
from cluster import Cluster, slots

WORLD = """
import horovod.torch as hvd, torch
hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum)
place = f"{hvd.rank()} {hvd.local_rank()} {hvd.cross_rank()}"
print(f"sum {total.item()} {place} end\\n", end="")  # one write: mpirun cuts lines where writes end
"""


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpiexec.hydra"])
def test_an_mpirun_starts_the_ranks_of_two_hosts(
    cluster: Callable[..., Cluster], mpirun: str
) -> None:
    if shutil.which(mpirun) is None:
        pytest.skip(f"{mpirun} is not installed")
    pytest.importorskip("torch")
    hosts = cluster(2)
    command = ("--mpi", "-np", 4, "-H", slots(hosts.hosts, 2), sys.executable, "-c")

    job = hosts.run(*command, WORLD, env={"HOROVOD_MPIRUN": mpirun})
    failed = hosts.run(
        *command, "import os; os._exit(7 * (os.environ['HOROVOD_RANK'] == '3'))",
        env={"HOROVOD_MPIRUN": mpirun},
    )  # fmt: skip

    assert job.code == 0, job.err
    said = sorted(line.split("sum ")[1] for line in job.lines if "sum " in line)
    assert said == [f"6.0 {rank} {rank % 2} {rank // 2} end" for rank in range(4)]
    assert failed.code == 7, failed.err
    hosts.wait_until_clean(2)
