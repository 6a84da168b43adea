# SPDX-License-Identifier: Apache-2.0
"""The connections between ranks of several hosts: by which addresses they go."""

from __future__ import annotations

import os
import sys

import pytest
import wording

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds

# A world without a framework: its ranks meet, reduce, and tell what NCCL would be told.
MEET = """
import ctypes
from horovod.common.basics import HorovodBasics
basics = HorovodBasics()
basics.init()
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print("nccl", (getenv(b"NCCL_SOCKET_IFNAME") or b"").decode(), flush=True)
basics.shutdown()
"""


def environment(**more: str) -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ} | more


@pytest.fixture
def meet(cluster):
    """meet(hosts, ...) runs two ranks on each of two hosts."""
    hosts = cluster(2)
    hosts.head.path("/root/meet.py").write_text(MEET)

    def run(*flags: object, **variables: str):
        command = (sys.executable, "/root/meet.py")
        return hosts.run(
            *("-np", 4, "-H", "h1:2,h2:2", *flags), *command, env=environment(**variables)
        )

    run.hosts = hosts
    return run


def drop_connections(host, which: str) -> None:
    """Such connections to the host get no answer; SSH does."""
    rules = (
        "table inet lab { chain in { type filter hook input priority 0; "
        f"{which} tcp dport != 22 tcp flags & (syn | ack) == syn drop; }}; }}"
    )
    host.run("nft", "-f", "-", stdin=None, input=rules).check_returncode()


def by_eth0(sentence: str, host, *others) -> str:
    addresses = ", ".join(f"{other.name} {other.address}" for other in others)
    place = {"host": host.name, "interface": "eth0", "address": host.address}
    return sentence.format(**place, others=addresses)


def said_of_ways(job) -> list[str]:
    return [
        line.split(wording.CONNECTED)[1]
        for line in job.stderr.splitlines()
        if wording.CONNECTED in line
    ]


def test_the_addresses_are_told_once_for_each_host_and_nccl_gets_the_interface(meet):
    job = meet(HOROVOD_LOG_LEVEL="info")

    h1, h2 = meet.hosts.hosts
    assert job.code == 0, job.err
    assert [line.split(":", 1)[1] for line in job.lines] == ["nccl =eth0"] * 4
    assert sorted(said_of_ways(job)) == [
        by_eth0(wording.BY_INTERFACE, h1, h2),
        by_eth0(wording.BY_INTERFACE, h2, h1),
    ]


def test_the_launcher_tells_the_addresses_of_its_first_host_and_if_asked_of_each_pair(cluster):
    hosts = cluster(3)
    hosts.head.path("/root/meet.py").write_text(MEET + MEET)
    command = (sys.executable, "/root/meet.py")
    flags = ("-np", 6, "-H", "h1:2,h2:2,h3:2")

    job = hosts.run(*flags, "--verbose", *command, env=environment())
    quiet = hosts.run(*flags, *command, env=environment())

    h1, h2, h3 = hosts.hosts
    assert job.code == 0, job.err
    goes = wording.PREFIX + wording.DATA_GOES
    of_h1, of_h2 = by_eth0(goes, h1, h2, h3), by_eth0(goes, h2, h3)
    beginning = wording.beginning(goes)
    assert sorted(line for line in job.said if line.startswith(beginning)) == [of_h1, of_h2]
    assert quiet.code == 0
    assert quiet.said == [of_h1]


DIFFER = """
import socket, sys, types
jax = types.ModuleType("jax")
jax.__version__ = "1." + socket.gethostname()[1:]
sys.modules["jax"] = jax
"""


def test_hosts_that_do_not_have_the_same_versions_are_named(cluster):
    hosts = cluster(3)
    hosts.head.path("/root/meet.py").write_text(DIFFER.replace("[1:]", "[2:]") + MEET + MEET)
    hosts.head.path("/root/differ.py").write_text(DIFFER + MEET)
    flags = ("-np", 6, "-H", "h1:2,h2:2,h3:2", sys.executable)

    same = hosts.run(*flags, "/root/meet.py", env=environment())
    differ = hosts.run(*flags, "/root/differ.py", env=environment())

    said = wording.line(wording.HOSTS_DIFFER, what="")
    assert (same.code, differ.code) == (0, 0), differ.err
    assert not [line for line in same.said if line.startswith(said)]
    assert [line for line in differ.said if line.startswith(said)] == [
        said + wording.VERSIONS_DIFFER
    ]


def test_what_the_user_tells_nccl_stays(meet):
    job = meet(NCCL_SOCKET_IFNAME="ib0")

    assert [line.split(":", 1)[1] for line in job.lines] == ["nccl ib0"] * 4, job.err


def test_an_address_that_never_answers_is_passed_by(meet):
    for host in meet.hosts.hosts:
        drop_connections(host, "iifname eth0 meta nfproto ipv4")

    job = meet(HOROVOD_LOG_LEVEL="info")

    assert job.code == 0, job.err.decode(errors="replace")
    ways = said_of_ways(job)
    assert len(ways) == 2, job.err
    assert all(host.address6 in " ".join(ways) for host in meet.hosts.hosts), ways


def test_interfaces_that_are_asked_for_are_the_ones_that_are_used(meet):
    h2 = meet.hosts.hosts[1]

    job = meet(
        "--network-interfaces", "fd00::/8", "--port-range", "21000-21099", HOROVOD_LOG_LEVEL="info"
    )
    refused = meet("--network-interfaces", "wlan*")

    assert job.code == 0, job.err
    assert h2.address6 in said_of_ways(job)[0], job.err
    assert refused.code != 0
    assert wording.NO_INTERFACE.format(value="wlan*") in refused.stderr
