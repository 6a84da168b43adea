# SPDX-License-Identifier: Apache-2.0
"""--port-range: every socket that listens for connections has one of its ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import wording
from support.hosts.listeners import watched
from test_hosts_join import TOKEN

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds
RANGE = "21000-21019"
PORTS = range(21000, 21020)

# Ranks of the second host come late, so that those of the first are seen to listen.
MEET = """
import os, time
from horovod.common.basics import HorovodBasics
if os.environ["HOROVOD_CROSS_RANK"] != "0":
    time.sleep(1)
basics = HorovodBasics()
basics.init()
print("master", os.environ["MASTER_PORT"], flush=True)
basics.shutdown()
"""

LISTEN = """
import socket, sys
sockets = [socket.create_server(("0.0.0.0", int(port))) for port in sys.argv[1:]]
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def hosts(cluster):
    hosts = cluster(2)
    hosts.head.path("/root/meet.py").write_text(MEET)
    return hosts


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def masters(job) -> set[int]:
    return {int(line.split()[-1]) for line in job.lines}


def test_launcher_and_ranks_listen_at_no_other_ports(hosts):
    for host in hosts.hosts:
        host.path(TOKEN).write_text("t" * 64)
    listen = ("--listen", "h1:0", "--join-token-file", TOKEN, "--port-range", RANGE)
    command = ("-H", "h1:2,h2:2", "-np", 4, sys.executable, "/root/meet.py")

    with watched(hosts.hosts) as seen, hosts.start(*listen, *command, env=environment()) as job:
        said = job.wait_for(b"--join-token-file", "err").decode()
        address = said.split("horovodrun --join ")[1].split()[0]
        hosts.hosts[1].run(hosts.program, "--join", address, "--join-token-file", TOKEN)
        ended = job.end()

    assert ended.code == 0, ended.err
    assert int(address.rsplit(":", 1)[1]) in PORTS
    assert len(seen) > 1, seen  # the listener, and ranks
    assert seen <= set(PORTS), seen
    assert masters(ended) <= set(PORTS), ended.out


def test_what_is_taken_is_passed_by_and_a_range_without_a_free_port_is_refused(hosts):
    job = ("-np", 2, "-H", "h1:1,h2:1", sys.executable, "/root/meet.py")
    with subprocess.Popen(
        [*hosts.head.prefix(), sys.executable, "-c", LISTEN, "21018", "21019"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=hosts.head.environment(),
    ) as server:
        assert server.stdout.readline() == b"listening\n"
        passed_by = hosts.run("--port-range", RANGE, *job, env=environment())
        refused = hosts.run("--port-range", "21018-21019", *job, env=environment())
        listen = ("--listen", "h1:0", "--join-hosts", 1, "--port-range", "21018-21019")
        no_listener = hosts.run(*listen, "-np", 2, "true")
        server.stdin.close()

    assert passed_by.code == 0, passed_by.err
    assert masters(passed_by) == {21017}
    assert refused.code == 2
    holders = [
        wording.pattern(wording.PORT_HOLDER, port=port, pid=r"\d+", user=r"\S+")
        + r" \(.*python.*\)"
        for port in (21018, 21019)
    ]
    taken = wording.pattern(wording.PORTS_TAKEN, first=holders[0], second=holders[1])
    ports = {"first": 21018, "last": 21019}
    assert refused.said[-1].startswith(
        wording.line(wording.NO_FREE_PORT, **ports, where="on h1 for MASTER_PORT")
    )
    assert re.search(f"{taken}{re.escape(wording.MORE_PORTS)}$", refused.said[-1])
    assert no_listener.code == 2
    assert wording.NO_FREE_PORT.format(**ports, where="here") in no_listener.said[-1]
    assert re.search(f"{taken} more$", no_listener.said[-1])
