# SPDX-License-Identifier: Apache-2.0
"""Keys of every kind, in files and in an agent; what libssh2 cannot use goes through `ssh`."""

from __future__ import annotations

import pytest
from cluster import slots

TELL = ("sh", "-c", "echo $(hostname)")
SYSTEM = "reached through the system's ssh"


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
    assert "/root/.ssh/id_rsa (of a type for ssh alone)" in job.said[0]
    hosts.wait_until_clean(1)


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


def test_an_encrypted_key_without_an_agent_is_named(keyed):
    hosts = keyed(2, "ed25519", "secret words")

    job = hosts.run("-np", 1, "-H", "h2:1", *TELL)

    said = "\n".join(job.said)
    assert job.code == 125
    assert "/root/.ssh/id_ed25519 (needs a passphrase; no agent has it)" in said
    assert "ermission denied" in said  # ssh's own words: it was asked too
    assert job.seconds < 20
