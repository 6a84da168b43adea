# SPDX-License-Identifier: Apache-2.0
"""`horovodrun doctor` over hosts: all that is wrong is found at once, and nothing is left."""

from __future__ import annotations

import json
import re
import subprocess

import wording
from cluster import slots
from support.hosts import HostOptions


def lines_about(job, name: str) -> list[str]:
    return [
        line for line in job.lines if re.match(rf"(PASS|FAIL)  {name}( |$)|      {name}: ", line)
    ]


def test_two_hosts_that_are_well(cluster):
    hosts = cluster(2)

    job = hosts.run("doctor", "-H", "h1:1,h2:1")

    assert job.code == 0, job.out.decode() + job.err.decode()
    assert [line.split()[:2] for line in job.lines[:2]] == [["PASS", "h1"], ["PASS", "h2"]]
    assert "clock" in job.lines[1]
    assert job.lines[2].startswith(wording.ONE_PAIR)
    assert re.match(
        f"PASS  h1 - h2  {wording.GOOD_LINK}"
        r"\d+ us, [\d.]+ GB/s  at (10\.77\.0\.2|\[fd77::1\]):\d+ ",
        job.lines[3],
    ), job.lines[3]
    hosts.wait_until_clean(1)


def test_all_hosts_are_reported_where_some_cannot_be_reached(cluster):
    hosts = cluster(4, {2: HostOptions(sshd=False)})

    job = hosts.run("doctor", "-H", "h1:1,h2:1,nohost:1,h4:1", "sh", "-c", "echo ran")

    assert job.code == 1
    assert [line[:8] for line in job.lines if line[:4] in ("PASS", "FAIL")][:4] == [
        "PASS  h1",
        "FAIL  h2",
        "FAIL  no",
        "PASS  h4",
    ]
    (refused,) = lines_about(job, "h2")[1:]
    assert wording.REFUSED_BY_HOST in refused
    (unknown,) = lines_about(job, "nohost")[1:]
    assert wording.CORRECT_NAME in unknown
    assert job.lines[-1].startswith(f"PASS  h1 - h4  {wording.GOOD_LINK}")
    assert b"ran" not in job.out
    hosts.wait_until_clean(1)


def test_a_missing_interpreter_and_a_tiny_shm_are_named_with_their_hosts(cluster):
    hosts = cluster(3, {2: HostOptions(shm_bytes=1 << 20)})
    hosts.hosts[2].run("mkdir", "/tmp/only")
    hosts.head.run("sh", "-c", "mkdir /tmp/here && cp /bin/true /tmp/here/python")
    hosts.hosts[1].run("sh", "-c", "mkdir /tmp/here && cp /bin/true /tmp/here/python")

    job = hosts.run("doctor", "--json", "-H", "h1:1,h2:1,h3:1", "/tmp/here/python", "train.py")

    assert job.code == 1
    report = json.loads(job.out)
    first, second, third = report["hosts"]
    assert (first["ok"], second["ok"], third["ok"]) == (True, True, False)
    assert wording.SMALL_SHM.format(size="1 MiB") in second["warnings"][0]
    missing = wording.NOT_FOUND.format(program="/tmp/here/python")
    assert third["problems"] == [f"{missing}; {wording.INSTALL_IT}"]
    assert len(report["links"]) == 3 and all(link["ok"] for link in report["links"])
    hosts.wait_until_clean(1)


def test_the_nccl_of_each_host_is_that_of_its_own_python(cluster):
    hosts = cluster(3)
    site = "/tmp/venv/lib/python3.11/site-packages"
    for host, version in ((hosts.head, "2.27.3"), (hosts.hosts[1], "2.21.5")):
        steps = (
            f"mkdir -p /tmp/venv/bin {site}/nvidia/nccl/lib",
            f"mkdir {site}/nvidia_nccl_cu12-{version}.dist-info",
            f"touch /tmp/venv/pyvenv.cfg {site}/nvidia/nccl/lib/libnccl.so.2",
            "cp /bin/true /tmp/venv/bin/python",
        )
        host.run("sh", "-c", " && ".join(steps))

    job = hosts.run("doctor", "--json", "-H", "h1:1,h2:1,h3:1", "/tmp/venv/bin/python", "train.py")

    found = [host["nccl"] and host["nccl"]["version"] for host in json.loads(job.out)["hosts"]]
    assert found[:2] == ["2.27.3", "2.21.5"]
    assert found[2] not in found[:2]
    hosts.wait_until_clean(1)


def test_a_blocked_port_between_two_hosts_fails_with_the_addresses(cluster):
    hosts = cluster(3)
    rules = """
        table inet t {
          chain c {
            type filter hook input priority 0
            ip saddr 10.77.0.4 tcp dport 20000-20099 drop
            ip6 saddr fd77::3 tcp dport 20000-20099 drop
          }
        }"""
    subprocess.run(
        [*hosts.hosts[1].prefix(), "nft", "-f", "-"], input=rules, text=True, check=True, timeout=20
    )

    job = hosts.run("doctor", "-H", slots(hosts.hosts), "--port-range", "20000-20099")

    assert job.code == 1, job.out.decode()
    verdicts = {tuple(line.split()[1:4:2]): line for line in job.lines if " - " in line}
    assert verdicts["h1", "h2"].startswith("PASS") and ":200" in verdicts["h1", "h2"]
    assert verdicts["h1", "h3"].startswith("PASS")
    blocked = verdicts["h2", "h3"]
    cannot = wording.CANNOT_REACH.format(host="h3", other="h2")
    assert blocked.startswith(f"FAIL  h2 - h3  {cannot}")
    assert "10.77.0.3:200" in blocked and wording.NO_ANSWER.format(interface="eth0") in blocked
    assert all(line.startswith("PASS") for line in job.lines[:3])
    hosts.wait_until_clean(1)


def test_more_hosts_than_eight_are_measured_in_a_ring_and_across_it(cluster):
    hosts = cluster(9)

    job = hosts.run("doctor", "-H", slots(hosts.hosts))

    assert job.code == 0, job.out.decode() + job.err.decode()
    pairs = wording.PAIRS.format(count=13, all=36)
    assert any(line.startswith(pairs) for line in job.lines)
    hosts.wait_until_clean(1)


def test_a_signal_ends_it_and_its_agents(cluster):
    hosts = cluster(2)
    hosts.hosts[1].cut()

    with hosts.start("doctor", "-H", "h1:1,h2:1") as job:
        hosts.head.wait_for(
            lambda: any(one.reads_signals() for one in hosts.head.find("horovodrun")), "the doctor"
        )
        job.signal(15)
        ended = job.end()

    assert ended.code == 143
    assert ended.seconds < 15
    hosts.wait_until_clean(1, of=[hosts.head])


def test_a_launch_trace_shows_the_way_to_each_host(cluster):
    hosts = cluster(3)
    arguments = ("-np", 3, "-H", slots(hosts.hosts), "--launch-trace", "/root/trace.json")

    job = hosts.run(*arguments, "--verbose", "true")

    assert job.code == 0, job.err.decode()
    events = json.loads(hosts.head.path("/root/trace.json").read_text())["traceEvents"]
    names = {
        event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"
    }
    assert names == {0: "horovodrun", 1: "h1", 2: "h2", 3: "h3"}
    way = [event for event in events if (event["pid"], event["tid"], event["ph"]) == (3, 1, "X")]
    assert [event["name"] for event in way] == [
        "resolving its name",
        "connecting",
        "key exchange",
        "host key",
        "authentication",
        "opening a channel",
        "starting the shell",
        "finding the agent",
        "sending the agent",
        "agent",
        "which hosts are one machine",
        "preflight",
    ]
    began = way[0]["ts"]
    for event in way[:10]:  # one behind the other, without a gap
        assert abs(event["ts"] - began) <= 2
        began = event["ts"] + event["dur"]
    (said,) = [line for line in job.said if wording.START_TOOK in line]
    assert "key exchange" in said and wording.LAST_HOST in said and wording.LAST_RANK in said


def test_a_launch_trace_shows_what_can_be_known_of_a_remote_shell(cluster):
    hosts = cluster(2)
    shell = hosts.head.path("/root/shell")
    shell.write_text('#!/bin/sh\nexec ssh "$@"\n')
    shell.chmod(0o755)
    arguments = ("-np", 2, "-H", slots(hosts.hosts), "--launch-trace", "/root/trace.json")

    job = hosts.run(*arguments, "--remote-shell", "/root/shell", "true")

    assert job.code == 0, job.err.decode()
    events = json.loads(hosts.head.path("/root/trace.json").read_text())["traceEvents"]
    way = [event for event in events if (event["pid"], event["tid"], event["ph"]) == (2, 1, "X")]
    assert [event["name"] for event in way] == [
        "through /root/shell",
        "finding the agent",
        "sending the agent",
        "agent",
        "which hosts are one machine",
        "preflight",
    ]
