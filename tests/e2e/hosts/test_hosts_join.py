# SPDX-License-Identifier: Apache-2.0
"""Hosts that join by themselves: no ssh is used, and every connection goes out from them."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time

import pytest
from jobs import Running

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds
PORT = 4000
TOKEN = "/root/token"
TRAIN = """
import torch
import horovod.torch as hvd

hvd.init()
torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
torch.manual_seed(100 + hvd.rank())
for step in range(5):
    optimizer.zero_grad()
    inputs = torch.randn(16, 8)
    (model(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
print("weights", model.weight.detach().numpy().tobytes().hex(), flush=True)
"""


@pytest.fixture
def joined(cluster):
    """joined(count, arguments...): a launcher on the first of so many hosts, and the others."""
    with contextlib.ExitStack() as stack:

        def start(count: int, *arguments: object, env: dict[str, str] | None = None):
            hosts = cluster(count)
            token = secrets.token_hex(32)
            for host in hosts.hosts:
                host.path(TOKEN).write_text(token)
            where = ("--listen", f"h1:{PORT}", "--join-token-file", TOKEN)
            job = stack.enter_context(hosts.start(*where, *arguments, env=env))
            joiners = [stack.enter_context(join(hosts, host)) for host in hosts.hosts[1:]]
            return hosts, job, joiners

        yield start


@contextlib.contextmanager
def join(hosts, host):
    flags = ("--join", f"h1:{PORT}", "--join-token-file", TOKEN)
    began = time.monotonic()
    process = subprocess.Popen(
        [*host.prefix(), hosts.program, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=host.environment(),
    )
    try:
        yield Running(process, began)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(20)
        process.stdout.close()
        process.stderr.close()


def test_training_on_hosts_that_joined_equals_the_one_host_result(joined):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env["OMP_NUM_THREADS"] = "1"
    command = (sys.executable, "-c", TRAIN)
    hosts, job, joiners = joined(3, "-np", 2, "-H", "h2:1,h3:1", *command, env=env)

    ended = job.end()
    one = hosts.run("-np", 2, *command, env=env)

    assert (ended.code, one.code) == (0, 0), ended.err + one.err
    weights = {line.split(":", 1)[1] for line in ended.lines}
    assert len(ended.lines) == 2
    assert weights == {line.split(":", 1)[1] for line in one.lines}
    assert len(weights) == 1
    assert [joiner.end().code for joiner in joiners] == [0, 0]
    hosts.wait_until_clean(1)


def test_the_launchers_host_has_ranks_where_it_is_named(joined):
    tell = ("sh", "-c", "echo $(hostname) $HOROVOD_LOCAL_RANK")
    _, job, joiners = joined(3, "-np", 3, "-H", "h1:1,h2:1,h3:1", *tell)

    ended = job.end()

    assert sorted(ended.lines) == [f"[{rank}]<stdout>:h{rank + 1} 0" for rank in range(3)]
    assert [joiner.end().code for joiner in joiners] == [0, 0]


UP = ("sh", "-c", "echo up; sleep 1000 & wait")


def up(job, ranks: int) -> None:
    job.wait_until(lambda: job.text["out"].count(b"up\n") == ranks, f"{ranks} ranks")


def test_a_joined_host_that_dies_is_the_culprit_and_the_others_are_ended(joined):
    hosts, job, (_, h3) = joined(3, "-np", 4, "--join-hosts", 2, "--grace", 1, *UP)
    up(job, 4)

    hosts.hosts[1].kill()
    ended = job.end()

    assert ended.code == 125
    assert "h2" in "\n".join(ended.said)
    assert h3.end().code == 125
    assert "h2" in h3.end().err.decode()
    hosts.wait_until_clean(2)


def test_a_launcher_that_dies_leaves_nothing_on_hosts_that_joined(joined):
    hosts, job, joiners = joined(3, "-np", 4, "--join-hosts", 2, *UP)
    up(job, 4)

    job.signal(signal.SIGKILL)

    hosts.wait_until_clean(2)
    assert [joiner.end().code for joiner in joiners] == [125, 125]


def test_a_silent_host_that_joined_is_lost_when_its_lease_ends(joined):
    flags = ("-np", 4, "-H", "h2:2,h3:2", "--lease", 2, "--grace", 1)
    hosts, job, _ = joined(3, *flags, *UP)
    up(job, 4)
    began = time.monotonic()

    hosts.hosts[2].cut()
    ended = job.end()
    took = time.monotonic() - began

    assert ended.code == 125
    assert "h3" in "\n".join(ended.said)
    assert 1.5 < took < 8
    hosts.wait_until_clean(4)


def test_ctrl_c_where_one_joined_ends_the_job(joined):
    hosts, job, (h2, h3) = joined(3, "-np", 2, "-H", "h2:1,h3:1", "--grace", 1, *UP)
    up(job, 2)
    agents = hosts.hosts[1].find("hvd-agent")

    for agent in agents:
        with contextlib.suppress(ProcessLookupError):  # the first has asked the second
            os.kill(agent.pid, signal.SIGINT)  # as a terminal does
    ended = job.end()

    assert ended.code == 125
    assert "h2" in "\n".join(ended.said)
    assert (h2.end().code, h3.end().code) == (130, 125)
    hosts.wait_until_clean(2)


def test_guard_and_agent_that_die_at_once_take_their_ranks_along(joined):
    hosts, job, _ = joined(3, "-np", 2, "-H", "h2:1,h3:1", "--grace", 1, *UP)
    up(job, 2)
    h2 = hosts.hosts[1]
    pids = [agent.pid for agent in h2.find("hvd-agent")]

    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # neither sees the other's end
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    ended = job.end()

    assert len(pids) == 2
    assert ended.code == 125
    h2.wait_for(lambda: not h2.find("sh"), "the end of its rank", 2)
    hosts.wait_until_clean(2, of=[hosts.hosts[0], hosts.hosts[2]])
