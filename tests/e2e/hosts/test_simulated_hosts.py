# SPDX-License-Identifier: Apache-2.0
"""The simulated hosts are what tests take them for. Nothing of the product is used here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.hosts import HostOptions
from support.processes import process, wait_until_none

OPTIONS = "BatchMode=yes StrictHostKeyChecking=yes ConnectTimeout=5 KexAlgorithms=curve25519-sha256"
SSH = ("ssh", *(word for option in OPTIONS.split() for word in ("-o", option)))


def ssh(host, other, command, **options):
    return host.run(*SSH, other, command, **options)


def test_every_host_reaches_every_other_by_ssh(lab):
    hosts = lab(3)

    for host in hosts:
        for other in hosts:
            result = ssh(host, other.name, "hostname; pwd")
            assert result.stdout == f"{other.name}\n/root\n", result.stderr


@pytest.mark.parametrize("name", ["h2", "h2.test", "h2-v6", "10.77.0.3", "fd77::2"])
def test_a_host_has_several_names(lab, name):
    h1, _ = lab(2)

    result = ssh(h1, name, "hostname; id -un; pwd", user="tester")

    assert result.stdout == "h2\ntester\n/home/tester\n", result.stderr


def test_hosts_share_homes_and_nothing_else(lab):
    h1, h2 = lab(2)

    h1.run("touch", "/root/seen", "/tmp/own", "/var/tmp/own", "/dev/shm/own", "/run/own")

    assert h2.run("ls", "/root").stdout == "seen\n"
    shown = h2.run("ls", "/tmp", "/var/tmp", "/dev/shm", "/run").stdout
    assert "own" not in shown
    assert h1.path("/tmp/own").exists() and not h2.path("/tmp/own").exists()


def test_the_machine_notices_nothing(lab):
    def machine() -> tuple[object, ...]:
        links = sorted(
            line.split(":")[0] for line in Path("/proc/net/dev").read_text().splitlines()
        )
        mounts = Path("/proc/self/mounts").read_text()
        return links, mounts, os.listdir("/tmp").count("own"), os.uname().nodename

    before = machine()
    h1, _ = lab(2)
    h1.run("touch", "/tmp/own")

    assert machine() == before
    assert h1.run("cat", "/proc/sys/kernel/hostname").stdout == "h1\n"


def test_what_runs_in_a_host_is_counted_from_outside(lab):
    h1, h2 = lab(2)

    hidden = (
        "setsid setsid sh -c 'env -i sleep 1000 & exec sleep 1001' >/dev/null 2>&1 </dev/null &"
    )
    ssh(h1, "h2", hidden)

    def left():
        return sorted(one.command for one in h2.jobs())

    h2.wait_for(lambda: left() == [("sleep", "1000"), ("sleep", "1001")], "these two alone")
    assert h1.jobs() == []
    for one in h2.jobs():
        os.kill(one.pid, signal.SIGKILL)
    h2.wait_for(lambda: not h2.jobs(), "their end")


def test_the_end_of_a_command_is_told_as_it_was(lab):
    (h1,) = lab(1)

    assert h1.run("sh", "-c", "exit 7").returncode == 7
    assert h1.run("sh", "-c", "kill -9 $$").returncode == -9
    assert h1.run("/nowhere").returncode == 127


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_a_command_in_a_host(lab, number):
    (h1,) = lab(1)
    job = subprocess.Popen([*h1.prefix("tester"), "sleep", "1000"])
    h1.wait_for(lambda: h1.find("sleep"), "the command")

    job.send_signal(number)

    assert job.wait(20) == -number
    h1.wait_for(lambda: not h1.jobs(), "its end")


def sleeping_over_ssh(h1, h2, *alive):
    command = [*h1.prefix(), *SSH, *alive, "h2", "sleep 1000"]
    job = subprocess.Popen(
        command, env=h1.environment(), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    h2.wait_for(lambda: h2.find("sleep"), "the command")
    return job


def test_a_killed_host_closes_its_connections(lab):
    h1, h2 = lab(2)
    job = sleeping_over_ssh(h1, h2)

    h2.kill()

    assert job.wait(20) == 255  # it would wait for ever if nothing told it
    assert h2.processes() == []
    assert "refused" in ssh(h1, "h2", "true").stderr


def test_a_crashed_host_is_silent(lab):
    h1, h2 = lab(2)
    alive = ("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=1")
    job = sleeping_over_ssh(h1, h2, *alive)

    h2.crash()

    with pytest.raises(subprocess.TimeoutExpired):
        job.wait(1.0)
    assert h2.processes() == []
    assert job.wait(20) == 255


def test_a_cut_link_can_be_healed(lab):
    h1, h2 = lab(2)

    h2.cut()
    cut = h1.run("ssh", "-o", "ConnectTimeout=1", *SSH[1:], "h2", "true")
    h2.heal()

    assert cut.returncode == 255
    assert ssh(h1, "h2", "echo again").stdout == "again\n"


RECEIVE = """
import socket
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE: nothing is lost here
end.bind(("", 4000))
print("ready", flush=True)
received = 0
while (data := end.recv(100)) != b"end":
    received += 1
print(received)
"""
SEND = """
import socket
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for turn in range(1000):
    end.sendto(b"x", ("h2", 4000))
for turn in range(50):
    end.sendto(b"end", ("h2", 4000))
"""


@pytest.mark.parametrize("percent, least, most", [(0, 1000, 1000), (30, 600, 800)])
def test_packets_are_lost_as_often_as_asked(lab, percent, least, most):
    hosts = lab(2)
    h1, h2 = hosts
    ssh(h1, "h2", "true")  # now they know each other's MAC: no question for it can be lost
    if percent:
        hosts.lose(h2, percent)
    python = (*h2.prefix(), "/usr/bin/python3", "-c", RECEIVE)
    with subprocess.Popen(python, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "ready\n"

        h1.run("/usr/bin/python3", "-c", SEND, check=True)
        received = int(receiver.stdout.read())

    assert least <= received <= most


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support.hosts import Lab
hosts = Lab(2)
print(hosts.files.folder)
print(*(one.pid for host in hosts for one in host.processes()), flush=True)
time.sleep(1000)
"""


def test_hosts_die_with_whoever_made_them(can_have_hosts):
    tests = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", KILLED, str(tests)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as maker:
        folder = maker.stdout.readline().strip()
        pids = [int(word) for word in maker.stdout.readline().split()]
        maker.kill()
    shutil.rmtree(folder)  # nobody is left to do it

    assert len(pids) >= 4
    wait_until_none(lambda: [pid for pid in pids if process(pid)], 10)


ODD = {
    2: HostOptions(python=False, shell="/bin/csh"),
    3: HostOptions(read_only_home=True, no_exec=True, shell="/usr/bin/fish"),
    4: HostOptions(full_disk=True, shm_bytes=64 << 20),
    5: HostOptions(rc="echo Welcome; echo to the cluster >&2\n", shm_bytes=64 << 20),
}


def test_hosts_can_be_odd(lab):
    hosts = lab(5, ODD)
    h1 = hosts[0]

    def told(name: str, command: str) -> str:
        result = ssh(h1, name, command)
        return result.stdout + result.stderr

    assert "not found" in told("h2", "/bin/sh -c 'python3 -V'").lower()
    assert told("h2", "echo $shell").strip() == "/bin/csh"
    assert "Read-only" in told("h3", "touch /root/x")
    assert told("h3", "echo $version").startswith("3.")
    copy = "cp /bin/true {0}/true && {0}/true || echo refused"
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        assert "refused" in told("h3", f"/bin/sh -c '{copy.format(folder)}'"), folder
    for folder in ("/root", "/tmp", "/var/tmp", "/dev/shm"):
        assert "No space" in told("h4", f"cp /bin/true {folder}/true"), folder
    shown = told("h5", "df -k --output=size /dev/shm").split()
    assert shown == ["Welcome", "1K-blocks", "65536", "to", "the", "cluster"]
