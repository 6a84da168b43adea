# SPDX-License-Identifier: Apache-2.0
"""horovodrun --mpi over two simulated hosts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

import pytest
from cluster import Cluster, slots
from support.hosts import HostOptions

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


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpiexec.hydra"])
def test_the_port_of_a_host_goes_to_the_ssh_of_mpirun(
    cluster: Callable[..., Cluster], mpirun: str
) -> None:
    if shutil.which(mpirun) is None:
        pytest.skip(f"{mpirun} is not installed")
    hosts = cluster(2, {2: HostOptions(sshd_config="Port 22\nPort 2222\n")})
    where = ("-np", 2, "-H", "h1:1,ssh://h2:2222/1")

    job = hosts.run("--mpi", *where, "hostname", env={"HOROVOD_MPIRUN": mpirun})
    plan = hosts.run("--mpi", "--dry-run", *where, "hostname", env={"HOROVOD_MPIRUN": mpirun})

    assert job.code == 0, job.err
    assert sorted(line[-2:] for line in job.lines) == ["h1", "h2"]
    assert "-p 2222" in plan.out.decode(), plan.out
