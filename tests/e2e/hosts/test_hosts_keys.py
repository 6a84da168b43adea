# SPDX-License-Identifier: Apache-2.0
"""Keys of every kind, in files and in an agent; what libssh2 cannot use goes through `ssh`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import wording
from cluster import slots

TELL = ("sh", "-c", "echo $(hostname)")
SYSTEM = wording.beginning(wording.THROUGH_SSH)


@pytest.fixture
def keyed(cluster):
    """keyed(count, kind, passphrase): hosts that accept one new key of that kind and no other."""

    def make(count: int, kind: str, passphrase: str = ""):
        hosts = cluster(count)
        ssh = hosts.head.path("/root/.ssh")
        (ssh / "id_ed25519").unlink()
        (ssh / "id_ed25519.pub").unlink()
        words = ("-q", "-t", kind, "-N", passphrase, "-f", f"/root/.ssh/id_{kind}")
        hosts.head.run("ssh-keygen", *words, check=True)
        public = (ssh / f"id_{kind}.pub").read_text()
        (ssh / "authorized_keys").write_text(public)
        for host in hosts.hosts:
            (hosts.lab.files.folder / host.name / "ssh/authorized_keys").write_text(public)
        return hosts

    return make


def start_agent(hosts, kind: str, passphrase: str = "") -> dict[str, str]:
    """An ssh-agent on the first host that holds the key; the environment that leads to it."""
    where = {"SSH_AUTH_SOCK": "/root/agent.sock"}
    hosts.head.run("ssh-agent", "-a", where["SSH_AUTH_SOCK"], check=True)
    hosts.head.path("/root/ask").write_text(f"#!/bin/sh\necho '{passphrase}'\n")
    hosts.head.path("/root/ask").chmod(0o755)
    asks = {"SSH_ASKPASS": "/root/ask", "SSH_ASKPASS_REQUIRE": "force"}
    environment = hosts.head.environment("root", **where, **asks)
    hosts.head.run("ssh-add", f"/root/.ssh/id_{kind}", env=environment, check=True)
    return where


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_key_file_that_libssh2_can_use(keyed, kind):
    hosts = keyed(3, kind)

    job = hosts.run("-np", 2, "-H", "h2:1,h3:1", *TELL)

    assert sorted(job.lines) == ["[0]<stdout>:h2", "[1]<stdout>:h3"], job.err
    assert job.said == []


def test_an_rsa_key_goes_through_ssh_and_that_is_said_once(keyed):
    hosts = keyed(4, "rsa")

    job = hosts.run("-np", 3, "-H", slots(hosts.hosts[1:]), *TELL)

    assert sorted(job.lines) == [f"[{rank}]<stdout>:h{rank + 2}" for rank in range(3)], job.err
    assert len(job.said) == 1 and SYSTEM in job.said[0], job.said
    assert wording.KEY_FOR_SSH.format(key="/root/.ssh/id_rsa") in job.said[0]
    hosts.wait_until_clean(1)


def test_too_many_hosts_through_ssh_for_the_limit_of_files_are_refused_with_numbers(keyed):
    hosts = keyed(4, "rsa")
    words = ("prlimit", "--nofile=76:76", hosts.program, "-H", slots(hosts.hosts[1:]), *TELL)

    job = hosts.head.run(*words)

    assert job.returncode == 125
    numbers = {"count": 3, "starter": "ssh", "need": 80, "limit": 76}
    assert wording.FILES_OF_HOSTS.format(**numbers) in job.stderr
    assert wording.TOO_MANY_FILES not in job.stderr


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
@pytest.mark.parametrize("is_file_there", [True, False], ids=["file", "no file"])
def test_a_key_in_an_agent(keyed, kind, is_file_there):
    hosts = keyed(3, kind, "secret words")
    where = start_agent(hosts, kind, "secret words")
    if not is_file_there:
        hosts.head.path(f"/root/.ssh/id_{kind}").unlink()
        hosts.head.path(f"/root/.ssh/id_{kind}.pub").unlink()

    job = hosts.run("-np", 2, "-H", "h2:1,h3:1", *TELL, env=where)

    assert sorted(job.lines) == ["[0]<stdout>:h2", "[1]<stdout>:h3"], job.err
    assert job.said == []


def test_an_rsa_key_in_an_agent_goes_through_ssh(keyed):
    hosts = keyed(2, "rsa")
    where = start_agent(hosts, "rsa")
    hosts.head.path("/root/.ssh/id_rsa").unlink()

    job = hosts.run("-np", 1, "-H", "h2:1", *TELL, env=where)

    assert job.lines == ["[0]<stdout>:h2"], job.err
    assert len(job.said) == 1 and SYSTEM in job.said[0] and "ssh-rsa" in job.said[0]


def test_an_agent_with_more_keys_than_the_host_lets_one_try(keyed):
    hosts = keyed(2, "ed25519")
    where = start_agent(hosts, "ed25519")
    env = hosts.head.environment("root", **where)
    hosts.head.run("ssh-add", "-D", env=env, check=True)
    for number in range(7):
        key = f"/root/other{number}"
        hosts.head.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key, check=True)
        hosts.head.run("ssh-add", key, env=env, check=True)

    job = hosts.run("-np", 1, "-H", "h2:1", *TELL, env=where)
    named = hosts.run("-np", 1, "-H", "h2:1", "-i", "/root/.ssh/id_ed25519", *TELL, env=where)

    said = "\n".join(job.said)
    assert job.code == 125
    assert wording.HUNG_UP.format(keys=6) in said
    assert "-i KEY" in said and "IdentitiesOnly yes" in said
    assert named.lines == ["[0]<stdout>:h2"], named.err


def test_an_encrypted_key_without_an_agent_is_named(keyed):
    hosts = keyed(2, "ed25519", "secret words")

    job = hosts.run("-np", 1, "-H", "h2:1", *TELL)

    said = "\n".join(job.said)
    assert job.code == 125
    assert wording.KEY_LOCKED.format(key="/root/.ssh/id_ed25519") in said
    assert "ermission denied" in said  # ssh's own words: it was asked too
    assert job.seconds < 20


# Stands before an ssh-agent: passes all on, but keeps each signature back for some seconds.
SLOW_AGENT = """
import socket, struct, sys, threading, time
ours, theirs, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
def frame(end):
    size = end.recv(4, socket.MSG_WAITALL)
    return size + end.recv(struct.unpack(">I", size)[0], socket.MSG_WAITALL) if size else b""
def serve(client):
    agent = socket.socket(socket.AF_UNIX)
    agent.connect(theirs)
    while request := frame(client):
        if request[4] == 13:  # to sign
            print("asked", flush=True)
            time.sleep(seconds)
        agent.sendall(request)
        client.sendall(frame(agent))
server = socket.socket(socket.AF_UNIX)
server.bind(ours)
server.listen()
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


def test_hosts_are_kept_while_somebody_unlocks_the_key_of_another(cluster):
    hosts = cluster(3)
    where = start_agent(hosts, "ed25519")
    hosts.head.path("/root/.ssh/config").write_text(
        "Host h2\n  IdentityAgent none\nHost h3\n  IdentityAgent /root/slow.sock\n"
    )
    slow = [sys.executable, "-c", SLOW_AGENT, "/root/slow.sock", where["SSH_AUTH_SOCK"], "6"]
    agent = subprocess.Popen(
        [*hosts.head.prefix(), *slow], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert agent.stdout.readline() == b"ready\n"
        # The host that is there would end its part, and be given up, after 2 s without a word.
        job = hosts.run("-np", 2, "-H", "h2:1,h3:1", "--lease", 2, *TELL)
        assert agent.stdout.readline() == b"asked\n"
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close()

    assert sorted(job.lines) == ["[0]<stdout>:h2", "[1]<stdout>:h3"], job.err
    assert job.code == 0
    assert not any("no word" in line or "lost" in line for line in job.said), job.said
    assert job.seconds > 6
