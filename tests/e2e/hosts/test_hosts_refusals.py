# SPDX-License-Identifier: Apache-2.0
"""A host that cannot be used is named, with the step that failed and what it said."""

from __future__ import annotations

import subprocess

import pytest
import wording
from support.hosts import HostOptions

SILENT = """
import socket, sys, time
end = socket.create_server(("", 2222))
print("ready", flush=True)
kept = []
while True:
    kept.append(end.accept())
"""


def refusal(job, host: str = "h2") -> str:
    """What horovodrun said about the host."""
    said = "\n".join(job.said)
    assert job.code == 125, said
    assert host in said
    return said


def shut_out(hosts, number: int) -> None:
    """As a firewall does: what the host answers the first one is lost."""
    hosts.hosts[number - 1].run("ip", "route", "add", "blackhole", "10.77.0.2/32")


def test_a_wrong_key(cluster):
    hosts = cluster(2)
    hosts.head.run("rm", "/root/.ssh/id_ed25519")
    hosts.head.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/root/.ssh/id_ed25519")
    (hosts.lab.files.folder / "h2/ssh/authorized_keys").write_text("")
    hosts.head.path("/root/.ssh/authorized_keys").write_text("")

    job = hosts.run("-np", 1, "-H", "h2:1", "true")

    said = refusal(job)
    assert "permission denied" in said.lower() or "authenti" in said


def test_an_unknown_host_key(cluster):
    hosts = cluster(2)
    (hosts.lab.files.folder / "h1/ssh/ssh_known_hosts").write_text("")

    job = hosts.run("-np", 1, "-H", "h2:1", "true")

    assert "host key" in refusal(job).lower()


def test_another_host_key(cluster):
    hosts = cluster(3)
    known = hosts.lab.files.folder / "h1/ssh/ssh_known_hosts"
    lines = known.read_text().splitlines()
    others = {line.split()[1]: line.split()[2] for line in lines if line.startswith("h3,")}
    changed = [
        " ".join([name, kind, others[kind] if name.startswith("h2,") else blob])
        for name, kind, blob in map(str.split, lines)
    ]
    known.write_text("\n".join(changed) + "\n")

    job = hosts.run("-np", 1, "-H", "h2:1", "true")

    assert "host key" in refusal(job).lower()


def test_a_wrong_user(cluster):
    hosts = cluster(2)

    said = refusal(hosts.run("-np", 1, "-H", "nobody9@h2:1", "true"))

    assert "permission denied" in said.lower() or "authenti" in said
    assert "nobody9" in said


def test_a_closed_port(cluster):
    hosts = cluster(2, {2: HostOptions(sshd=False)})

    assert "refused" in refusal(hosts.run("-np", 1, "-H", "h2:1", "true"))


def test_a_name_that_does_not_resolve(cluster):
    hosts = cluster(2)

    said = refusal(hosts.run("-np", 1, "-H", "nohost:1", "true"), "nohost")

    assert wording.NO_ADDRESS in said


def test_one_bad_host_of_many_ends_the_start_everywhere(cluster):
    hosts = cluster(4, {3: HostOptions(sshd=False)})

    job = hosts.run("-np", 4, "-H", "h1:1,h2:1,h3:1,h4:1", "echo", "ran")

    refusal(job, "h3")
    assert job.out == b""
    hosts.wait_until_clean(1)


def test_no_folder_for_programs_and_no_python(cluster):
    hosts = cluster(2, {2: HostOptions(no_exec=True, python=False)})

    said = refusal(hosts.run("-np", 1, "-H", "h2:1", "true"))

    for folder in ("/root/.cache", "/var/tmp", "/tmp", "/dev/shm"):
        assert folder in said
    hosts.wait_until_clean(1)


@pytest.mark.parametrize(
    "options",
    [
        HostOptions(shell="/bin/csh"),
        HostOptions(shell="/usr/bin/fish"),
        HostOptions(shell="/bin/dash"),
        HostOptions(rc="echo Welcome; echo to the cluster >&2\n"),
        HostOptions(rc="echo " + "x" * 20000 + "\n"),
        HostOptions(python=False),
        HostOptions(read_only_home=True),
        HostOptions(no_exec=True),
        HostOptions(full_disk=True),
        HostOptions(shm_bytes=64 << 20),
    ],
    ids=lambda options: ",".join(
        f"{name}={str(value)[:20].strip()}"
        for name, value in vars(options).items()
        if value != getattr(HostOptions(), name)
    ),
)
def test_an_odd_host_works(cluster, options):
    hosts = cluster(2, {2: options})

    job = hosts.run("-np", 2, "-H", "h2:2", "sh", "-c", "echo $(hostname) $HOROVOD_RANK")

    assert sorted(job.lines) == ["[0]<stdout>:h2 0", "[1]<stdout>:h2 1"], job.err.decode()
    assert job.code == 0
    hosts.wait_until_clean(1)


def test_a_host_that_says_nothing(cluster):
    hosts = cluster(2, {2: HostOptions(sshd=False)})
    command = [*hosts.hosts[1].prefix(), "/usr/bin/python3", "-c", SILENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as silent:
        assert silent.stdout.readline() == b"ready\n"

        job = hosts.run("-np", 1, "-p", 2222, "--start-timeout", 9, "-H", "h2:1", "true")
        silent.kill()

    said = refusal(job)
    silent = {"port": 2222, "address": "10.77.0.3", "seconds": 6}
    assert wording.NO_KEY_EXCHANGE.format(**silent) in said
    assert job.seconds < 15


def test_a_host_behind_a_firewall_is_told_before_the_start_timeout(cluster):
    hosts = cluster(2)
    shut_out(hosts, 2)

    job = hosts.run("-np", 1, "-H", "h2:1", "true")  # with nothing set anywhere

    said = refusal(job)
    no_answer = wording.NO_CONNECTION.format(address="10.77.0.3", seconds=20)
    assert f"port 22: {no_answer}" in said
    assert "firewall" in said
    assert len(job.said) == 1


def test_the_steps_follow_a_smaller_start_timeout(cluster):
    hosts = cluster(4)
    shut_out(hosts, 2)
    shut_out(hosts, 4)

    job = hosts.run("-np", 3, "--start-timeout", 9, "-H", "h2:1,h3:1,h4:1", "true")

    refusal(job)
    assert wording.NO_CONNECTION.format(address="10.77.0.3", seconds=6) in job.said[0]
    assert job.said[0].endswith(wording.SAME_HOSTS.format(hosts="h4"))
    assert job.seconds < 15
    hosts.wait_until_clean(1)


def test_the_doctor_tells_it_too(cluster):
    hosts = cluster(2)
    shut_out(hosts, 2)

    job = hosts.run("doctor", "--start-timeout", 9, "-H", "h2")

    assert job.code == 1
    assert wording.NO_CONNECTION.format(address="10.77.0.3", seconds=6) in job.stdout


def test_a_full_disk_without_python_is_said_in_the_systems_words(cluster):
    hosts = cluster(2, {2: HostOptions(full_disk=True, python=False)})

    assert wording.DISK_FULL in refusal(hosts.run("-np", 1, "-H", "h2:1", "true"))
