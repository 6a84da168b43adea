# SPDX-License-Identifier: Apache-2.0
"""One command on one host starts ranks on many, which need nothing but sshd and a shell."""

from __future__ import annotations

import json
import os
import sys

import contract
import pytest
import wording
from cluster import slots
from support.hosts import HostOptions

TELL = ("sh", "-c", contract.telling("$(hostname)"))


def told(job) -> list[tuple[contract.Contract, str]]:
    """The contract and the host of every rank, by rank."""
    assert job.code == 0, job.err.decode()
    return contract.told_with_more(job.stdout)


def hosts_of(job) -> list[str]:
    return [host for _, host in told(job)]


@pytest.mark.parametrize("count", [2, 4, 16])
def test_ranks_fill_the_hosts_in_order(cluster, count):
    hosts = cluster(count)

    job = hosts.run("-np", 2 * count, "-H", slots(hosts.hosts, 2), *TELL)

    assert told(job) == [
        ((rank, 2 * count, rank % 2, 2, rank // 2, count), f"h{rank // 2 + 1}")
        for rank in range(2 * count)
    ]
    hosts.wait_until_clean(1)


def test_unequal_hosts_have_the_right_numbers(cluster):
    hosts = cluster(3)

    job = hosts.run("-H", "h1:1,h2:3,h3:2", *TELL)

    assert told(job) == [
        ((0, 6, 0, 1, 0, 3), "h1"),
        ((1, 6, 0, 3, 1, 3), "h2"),
        ((2, 6, 1, 3, 0, 2), "h2"),
        ((3, 6, 2, 3, 0, 1), "h2"),
        ((4, 6, 0, 2, 2, 3), "h3"),
        ((5, 6, 1, 2, 1, 2), "h3"),
    ]


def test_the_host_of_horovodrun_need_not_have_ranks(cluster):
    hosts = cluster(3)

    job = hosts.run("-np", 2, "-H", "h2:1,h3:1", *TELL)

    assert hosts_of(job) == ["h2", "h3"]


@pytest.mark.parametrize("name", ["root@h2:1", "[fd77::2]:1", "10.77.0.3:1", "ssh://root@h2:22/1"])
def test_a_host_may_be_written_in_many_ways(cluster, name):
    hosts = cluster(2)

    job = hosts.run("-np", 1, "-H", name, "hostname", user="tester" if "@" in name else "root")

    assert (job.code, job.lines) == (0, ["[0]<stdout>:h2"]), job.err


def test_of_several_addresses_a_silent_one_costs_little(cluster):
    hosts = cluster(2)
    names = hosts.lab.files.etc / "hosts"
    silent = "".join(f"10.77.200.{number} both\n" for number in range(1, 4))
    names.write_text(f"{names.read_text()}{silent}{hosts.hosts[1].address} both\n")
    hosts.head.path("/root/.ssh/config").write_text("Host both\n  HostKeyAlias h2\n")

    job = hosts.run("-np", 1, "-H", "both:1", "hostname")

    assert (job.code, job.lines) == (0, ["[0]<stdout>:h2"]), job.err
    assert job.seconds < 3  # three times 250 ms; ARP alone takes 3 s for each


def test_a_host_file_names_hosts_too(cluster):
    hosts = cluster(3)
    hosts.head.path("/root/hosts").write_text("# ours\nh2 slots=2\n\nh3:1\n")

    job = hosts.run("-hostfile", "/root/hosts", "hostname")

    assert sorted(job.lines) == [
        "[0]<stdout>:h2",
        "[1]<stdout>:h2",
        "[2]<stdout>:h3",
    ], job.err


def test_an_ordinary_user_has_all_this_too(cluster):
    hosts = cluster(2)

    job = hosts.run("-np", 2, "-H", "h1:1,h2:1", "id", "-un", user="tester")

    assert sorted(job.lines) == ["[0]<stdout>:tester", "[1]<stdout>:tester"], job.err
    hosts.wait_until_clean(1)


SHOW = (
    "/usr/bin/python3",
    "-IS",
    "-c",
    "import json, os, sys; print(json.dumps([dict(os.environ), os.getcwd(), sys.argv[1:]]))",
)


def test_environment_directory_and_words_travel(cluster):
    hosts = cluster(2)
    words = ["a b", "", "$HOME", "it's", '"', "*", "ü", "\\", "!x", "line\nline"]
    mine = {
        "MINE": 'it\'s\na "test" ü',
        "BASH_FUNC_x%%": "() { :; }",
        "DISPLAY": ":7",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "XDG_RUNTIME_DIR": "/run/user/7",
        "CUDA_VISIBLE_DEVICES": "3",
        "HOSTNAME": "h1",
    }

    job = hosts.run("-np", 1, "-H", "h2:1", *SHOW, *words, env=mine, folder="/usr/lib")

    assert job.code == 0, job.err
    seen, folder, arguments = json.loads(job.lines[0].removeprefix("[0]<stdout>:"))
    assert (folder, arguments) == ("/usr/lib", words)
    assert seen["MINE"] == mine["MINE"]
    assert (seen["HOME"], seen["USER"]) == ("/root", "root")
    assert not set(seen) & set(mine) - {"MINE", "HOSTNAME"}
    assert seen.get("HOSTNAME") != "h1"


def test_only_what_is_named_travels_with_env_clean(cluster):
    hosts = cluster(2)
    flags = ("--env-clean", "--env", "A=1", "--env-pass", "B*")

    job = hosts.run("-np", 1, "-H", "h2:1", *flags, *SHOW, env={"BB": "2", "C": "3"})

    seen, *_ = json.loads(job.lines[0].removeprefix("[0]<stdout>:"))
    assert (seen["A"], seen["BB"]) == ("1", "2")
    assert "C" not in seen


def test_output_of_all_hosts_arrives_whole(cluster):
    hosts = cluster(4)
    script = "i=0; while [ $i -lt 2000 ]; do echo $HOROVOD_RANK-$i; i=$((i+1)); done; echo end >&2"

    job = hosts.run("-np", 8, "-H", slots(hosts.hosts, 2), "sh", "-c", script)

    assert job.code == 0, job.err
    assert sorted(job.lines) == sorted(
        f"[{rank}]<stdout>:{rank}-{line}" for rank in range(8) for line in range(2000)
    )
    assert job.err.count(b"<stderr>:end\n") == 8


def test_the_first_rank_reads_standard_input(cluster):
    hosts = cluster(2)
    reader, writer = os.pipe()
    os.write(writer, b"for rank 0\n")
    os.close(writer)

    job = hosts.run("-np", 2, "-H", "h2:2", "--stdin", 0, "cat", stdin=reader)
    os.close(reader)

    assert (job.code, job.lines) == (0, ["[0]<stdout>:for rank 0"]), job.err


IN_TERMINAL = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print(os.environ["TERM"], *os.get_terminal_size(), flush=True)
signal.sigwait([signal.SIGWINCH])
print("now", *os.get_terminal_size(), flush=True)
try:
    input("name? ")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_rank_elsewhere_has_a_terminal_like_the_users(cluster):
    hosts = cluster(2)
    program = (sys.executable, "-S", "-E", "-c", IN_TERMINAL)
    with hosts.in_terminal(
        "-np", 1, "-H", "h2:1", "--pty", 0, *program, rows=33, columns=101
    ) as terminal:
        terminal.wait_for(b"xterm 101 33\r\n")
        assert terminal.is_raw()
        terminal.resize(40, 120)
        terminal.wait_for(b"now 120 40\r\nname? ")
        terminal.type(b"\x03")
        terminal.wait_for(b"interrupted\r\n")

        assert terminal.wait_for_code() == 0
        assert terminal.is_as_before()
    hosts.wait_until_clean(1)


def test_a_terminal_comes_back_when_the_host_of_its_rank_is_lost(cluster):
    hosts = cluster(2)
    with hosts.in_terminal("-H", "h1:1,h2:1", "--pty", 1, "sleep", 600) as terminal:
        terminal.wait_until(raw=True)
        hosts.hosts[1].kill()

        terminal.wait_until(raw=False)
        assert terminal.wait_for_code() == 125
        assert terminal.is_as_before()


@pytest.mark.parametrize("shared", [True, False], ids=["one home", "many homes"])
def test_the_agent_is_copied_once_to_each_home(cluster, shared):
    own = HostOptions(own_home=not shared)
    hosts = cluster(8, dict.fromkeys(range(2, 9), own))
    others = hosts.hosts[1:]

    def agents() -> set[tuple[str, int, int]]:
        top = [host.path("/root/.cache/horovodrun") for host in others]
        found = [file for folder in top for file in folder.rglob("*") if file.is_file()]
        return {(file.name, file.stat().st_ino, file.stat().st_size) for file in found}

    first = hosts.run("-np", 7, "-H", slots(others), "true")
    copied = agents()
    second = hosts.run("-np", 7, "-H", slots(others), "true")

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert len(copied) == (1 if shared else 7), copied
    assert agents() == copied


def test_what_is_planned_is_what_runs(cluster):
    hosts = cluster(3)
    arguments = ("-np", 4, "-H", "h2:3,h3:1")

    planned = hosts.run(*arguments, "--dry-run", "--output-format", "json", *TELL)
    ran = hosts.run(*arguments, *TELL)

    plan = json.loads(planned.out)
    assert [entry["host"] for entry in plan["ranks"]] == hosts_of(ran)
    assert [(host["host"], host["slots"]) for host in plan["hosts"]] == [
        ("h2", 3),
        ("h3", 1),
    ]


def test_hosts_without_numbers_have_a_rank_for_each_cpu(cluster):
    hosts = cluster(3)
    cpus = len(os.sched_getaffinity(0))

    job = hosts.run("-H", "h2,h3", *TELL)

    assert hosts_of(job) == ["h2"] * cpus + ["h3"] * cpus


def test_two_names_of_one_host_are_one_machine(cluster):
    hosts = cluster(2)
    script = "echo $HOROVOD_LOCAL_RANK of $HOROVOD_LOCAL_SIZE, $HOROVOD_CROSS_SIZE"

    job = hosts.run("-np", 3, "-H", "h2:2,10.77.0.3:1", "sh", "-c", script)

    assert job.code == 0, job.err
    said = sorted(line.split(":", 1)[1] for line in job.lines)
    assert said == ["0 of 3, 1", "1 of 3, 1", "2 of 3, 1"]
    hosts.wait_until_clean(1)


def test_two_names_of_one_host_without_slots_are_refused_with_both(cluster):
    hosts = cluster(2)

    job = hosts.run("-np", 2, "-H", "h2,10.77.0.3", "true")

    assert job.code == 2
    assert job.said[-1].startswith(wording.line(wording.ONE_MACHINE, host="h2", other="10.77.0.3"))
    hosts.wait_until_clean(1)
