# SPDX-License-Identifier: Apache-2.0
"""Ways to a host that only the system's ssh knows: taken by themselves, said once, and no other."""

from __future__ import annotations

import subprocess

import pytest
import wording
from cluster import slots
from support.hosts import HostOptions
from support.hosts.files import address


def configure(hosts, text: str) -> None:
    hosts.head.path("/root/.ssh/config").write_text(text)


def goes_through_ssh(job, reason: str, *on: str) -> None:
    """The job ran on those hosts, by ssh and for that reason, which was said once."""
    assert sorted(job.lines) == [f"[{rank}]<stdout>:{host}" for rank, host in enumerate(on)], (
        job.err
    )
    assert job.code == 0
    assert len(job.said) == 1 and wording.THROUGH_SSH.format(why=reason) in job.said[0], job.said


def of_setting(name: str, line: int) -> str:
    return wording.OF_SETTING.format(setting=name, file="/root/.ssh/config", line=line)


def goes_by_itself(job, *on: str) -> None:
    assert sorted(job.lines) == [f"[{rank}]<stdout>:{host}" for rank, host in enumerate(on)], (
        job.err
    )
    assert (job.code, job.said) == (0, [])


@pytest.fixture
def behind(cluster):
    """behind(config): h3 and h4, which let in whoever comes from h2 and nobody else."""

    def make(config: str):
        inner = HostOptions(sshd_config=f"AllowUsers root@{address(2)}\n")
        hosts = cluster(4, {3: inner, 4: inner})
        refused = hosts.run("-np", 1, "-H", "h3:1", "hostname")
        assert refused.code == 125
        configure(hosts, config)
        return hosts

    return make


def test_a_proxy_jump(behind):
    hosts = behind("Host h3 h4\n  ProxyJump h2\n")

    job = hosts.run("-np", 3, "-H", "h2:1,h3:1,h4:1", "hostname")

    goes_through_ssh(job, of_setting("ProxyJump", 2), "h2", "h3", "h4")
    hosts.wait_until_clean(3)


def test_a_proxy_command(behind):
    hosts = behind("Host h3 h4\n  ProxyCommand ssh -W %h:%p h2\n")

    job = hosts.run("-np", 2, "-H", "h3:1,h4:1", "hostname")

    goes_through_ssh(job, of_setting("ProxyCommand", 2), "h3", "h4")
    hosts.wait_until_clean(3)


def test_a_connection_that_is_already_open(cluster):
    hosts = cluster(2)
    configure(hosts, "Host h2\n  ControlPath /root/open-%h\n")
    goes_by_itself(hosts.run("-np", 1, "-H", "h2:1", "hostname"), "h2")  # as none is open
    quiet = {"capture_output": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    hosts.head.run("ssh", "-f", "-N", "-M", "h2", check=True, **quiet)
    for keys in (
        hosts.head.path("/root/.ssh/authorized_keys"),
        hosts.lab.files.folder / "h2/ssh/authorized_keys",
    ):
        keys.write_text("")  # no other connection can be made

    job = hosts.run("-np", 1, "-H", "h2:1", "hostname")

    goes_through_ssh(job, wording.OF_OPEN_CONNECTION, "h2")


def test_match_exec(cluster):
    hosts = cluster(2)
    configure(hosts, 'Match originalhost there exec "true"\n  HostName h2\n')

    job = hosts.run("-np", 1, "-H", "there:1", "hostname")

    goes_through_ssh(job, of_setting("Match", 1), "h2")


@pytest.mark.parametrize("word", ["accept-new", "no"])
def test_an_unknown_host_key_that_the_settings_accept(cluster, word):
    hosts = cluster(3)
    (hosts.lab.files.folder / "h1/ssh/ssh_known_hosts").write_text("")
    configure(hosts, f"StrictHostKeyChecking {word}\n")

    job = hosts.run("-np", 2, "-H", "h2:1,h3:1", "hostname")
    again = hosts.run("-np", 2, "-H", "h2:1,h3:1", "hostname")

    goes_through_ssh(job, wording.OF_UNKNOWN_KEY.format(value=word), "h2", "h3")
    goes_by_itself(again, "h2", "h3")  # ssh has written them down


@pytest.mark.parametrize("word", ["accept-new", "no"])
def test_a_changed_host_key_is_what_the_settings_say_and_never_silent(cluster, word):
    hosts = cluster(3)
    known = hosts.lab.files.folder / "h1/ssh/ssh_known_hosts"
    lines = [line.split() for line in known.read_text().splitlines()]
    known.write_text("".join(f"h2 {kind} {key}\n" for names, kind, key in lines if "h3," in names))
    configure(hosts, f"StrictHostKeyChecking {word}\n")

    job = hosts.run("-np", 1, "-H", "h2:1", "hostname")

    said = "\n".join(job.said)
    assert wording.CHANGED_HOST_KEY in said
    if word == "no":  # as ssh does it
        assert (job.code, job.lines) == (0, ["[0]<stdout>:h2"])
    else:
        assert job.code == 125
        assert "Host key verification failed" in said


def test_a_certificate_where_the_hosts_trust_its_authority_alone(cluster):
    trusting = HostOptions(
        sshd_config="AuthorizedKeysFile none\nTrustedUserCAKeys /etc/ssh/ca.pub\n"
    )
    hosts = cluster(3, {2: trusting, 3: trusting})
    hosts.head.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/ca", check=True)
    for host in hosts.hosts[1:]:
        (hosts.lab.files.folder / host.name / "ssh/ca.pub").write_text(
            hosts.head.path("/root/ca.pub").read_text()
        )
    refused = hosts.run("-np", 1, "-H", "h2:1", "hostname")
    sign = ("ssh-keygen", "-q", "-s", "/root/ca", "-I", "me", "-n", "root")
    hosts.head.run(*sign, "/root/.ssh/id_ed25519.pub", check=True)

    job = hosts.run("-np", 2, "-H", slots(hosts.hosts[1:]), "hostname")

    assert refused.code == 125
    assert wording.KEY_REFUSED.format(key="/root/.ssh/id_ed25519") in "\n".join(refused.said)
    reason = wording.OF_KEY.format(user="root", key="/root/.ssh/id_ed25519-cert.pub")
    goes_through_ssh(job, reason, "h2", "h3")


def test_a_host_that_trusts_the_host_of_horovodrun(cluster):
    trusting = HostOptions(
        sshd_config="AuthorizedKeysFile none\nHostbasedAuthentication yes\n"
        "HostbasedUsesNameFromPacketOnly yes\n"
    )
    hosts = cluster(2, {2: trusting})
    (hosts.lab.files.folder / "h1/ssh/ssh_config").write_text(
        "EnableSSHKeysign yes\nHostbasedAuthentication yes\n"
    )
    (hosts.lab.files.folder / "h2/ssh/shosts.equiv").write_text("h1\n")

    job = hosts.run("-np", 1, "-H", "h2:1", "hostname", user="tester")

    reason = wording.OF_HOST_TRUST.format(user="tester", key="/home/tester/.ssh/id_ed25519")
    goes_through_ssh(job, reason, "h2")


def test_a_host_known_by_its_name_alone_is_known_at_another_port(cluster):
    hosts = cluster(2, {2: HostOptions(sshd_config="Port 22\nPort 2222\n")})
    known = hosts.lab.files.folder / "h1/ssh/ssh_known_hosts"
    lines = known.read_text()

    goes_by_itself(hosts.run("-H", "ssh://h2:2222/1", "hostname"), "h2")
    known.write_text(lines.replace("h2", "h3"))
    job = hosts.run("-H", "ssh://h2:2222/1", "hostname")

    assert job.code == 125
    assert wording.UNKNOWN_HOST_KEY in job.said[0]
    assert wording.RUN_ONCE.format(command="ssh -p 2222 h2") in job.said[0]


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_the_key_that_the_command_line_names_and_no_other(cluster, kind):
    hosts = cluster(3)
    words = ("-q", "-t", kind, "-N", "", "-f", "/root/given")
    hosts.head.run("ssh-keygen", *words, check=True)
    public = hosts.head.path("/root/given.pub").read_text()
    hosts.head.path("/root/.ssh/authorized_keys").write_text(public)
    for host in hosts.hosts:
        (hosts.lab.files.folder / host.name / "ssh/authorized_keys").write_text(public)

    without = hosts.run("-np", 1, "-H", "h2:1", "hostname")
    job = hosts.run("-i", "/root/given", "-np", 2, "-H", "h2:1,h3:1", "hostname")

    assert without.code == 125
    if kind == "rsa":
        reason = wording.OF_KEY.format(user="root", key="/root/given")
        goes_through_ssh(job, reason, "h2", "h3")
    else:
        goes_by_itself(job, "h2", "h3")


def test_a_dry_run_shows_the_command_that_starts_each_agent(cluster):
    hosts = cluster(3)
    configure(hosts, "Host h3\n  Ciphers aes128-ctr\n")

    job = hosts.run("--dry-run", "-p", 22, "-H", "h1:1,h2:1,h3:1", "true")

    lines = job.lines[job.lines.index("agents:") + 1 :]
    assert lines[0] == f"  h1: {wording.CHILD}"
    way = wording.SSH_AGENT_LINE.format(user="root", host="h2", port=22)
    assert lines[1].startswith(f"  h2: {way}test -O ~/.cache/horovodrun && ")
    assert lines[1].endswith(wording.SENDS_AGENT)
    assert lines[2].startswith("  h3: ssh -T -e none -o BatchMode=yes ")
    assert f" -p 22 -- h3 {wording.SHELL_LINE}" in lines[2]
    assert (job.code, len(lines)) == (0, 3)


def test_a_program_that_bashrc_leaves_in_the_background_holds_nothing_up(cluster):
    hosts = cluster(2)
    hosts.hosts[1].path("/root/.bashrc").write_text("sleep 40 &\n")

    job = hosts.run("-H", "h2:1", "hostname")

    goes_by_itself(job, "h2")
    assert job.seconds < 20
