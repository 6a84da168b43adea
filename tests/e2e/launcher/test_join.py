# SPDX-License-Identifier: Apache-2.0
"""Hosts that nobody can log in to join by themselves. Here all of them are this machine, so their
slots are put together on the first; tests/e2e/hosts has hosts of their own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest
import wording
from joining import TELL, running, wait_until_gone
from support.processes import children_of, showing

HERE = r"127\.0\.0\.1:\d+"


def test_two_that_join_run_four_ranks(meeting):
    job = meeting.listen("-np", 4, "-H", "a:2,b:2", *TELL)
    b, a = meeting.join("b"), meeting.join("a")

    ended = job.end()

    assert ended.code == 0, ended.err
    rows = sorted(line.split(":", 1)[1] for line in ended.lines)
    assert rows == [f"{rank} 4 {rank} 4 a" for rank in range(4)]
    for joiner in (a.end(), b.end()):
        assert joiner.code == 0, joiner.err
        assert joiner.stderr.splitlines()[-1] == wording.JOB_ENDED.format(code=0)


def test_the_exit_code_of_the_job_is_that_of_who_joined(meeting):
    job = meeting.listen("-np", 2, "--join-hosts", 1, "sh", "-c", "exit $((HOROVOD_RANK * 7))")
    joiner = meeting.join("node").end()

    assert (job.end().code, joiner.code) == (7, 7)
    assert wording.culprit(1, host="node") in joiner.stderr


def test_a_plan_of_those_who_joined_is_printed(meeting):
    flags = ("-np", 3, "--join-hosts", 1, "--dry-run", "--output-format", "json")
    job = meeting.listen(*flags, "true")
    joiner = meeting.join("node", "--join-slots", 5)

    plan = json.loads(job.end().out)

    (host,) = plan["hosts"]
    assert (host["host"], host["slots"], host["starter"]) == ("node", 5, "join")
    assert joiner.end().code == 0


def test_enough_slots_for_all_ranks_are_enough(meeting):
    job = meeting.listen("-np", 2, *TELL)
    joiner = meeting.join("node", "--join-slots", 2)

    assert (job.end().code, joiner.end().code) == (0, 0)


def test_another_token_is_refused_on_both_sides_and_disturbs_nobody(meeting, tmp_path):
    other = tmp_path / "other"
    other.write_text(secrets.token_hex(32))
    job = meeting.listen("-np", 1, "-H", "a:1", *TELL)

    refused = meeting.join("a", token=other).end()
    accepted = meeting.join("a")
    ended = job.end()

    assert refused.code == 125
    assert wording.OTHER_TOKEN_THERE in refused.stderr
    assert re.search(wording.pattern(wording.OTHER_TOKEN, address=HERE), ended.stderr)
    assert (ended.code, accepted.end().code) == (0, 0)


def test_a_second_one_of_the_same_name_is_refused_with_both_addresses(meeting):
    job = meeting.listen("-np", 2, "-H", "a:1,b:1", *TELL)
    first = meeting.join("a")
    job.wait_for(wording.HAS_JOINED.format(host="a").encode(), "err")

    second = meeting.join("a").end()
    other = meeting.join("b")

    assert second.code == 125
    twice = wording.pattern(wording.JOINED_ALREADY, host="a", first=HERE, second=HERE)
    assert re.search(twice, second.stderr), second
    assert [one.end().code for one in (job, first, other)] == [0, 0, 0]


def test_an_unexpected_name_is_refused(meeting):
    job = meeting.listen("-np", 1, "-H", "a:1", *TELL)

    refused = meeting.join("c").end()
    meeting.join("a")

    assert refused.code == 125
    unexpected = wording.NOT_EXPECTED.format(host="c")
    assert unexpected in refused.stderr
    ended = job.end()
    assert ended.code == 0
    assert sum(unexpected in line for line in ended.said) == 1


def test_who_leaves_before_the_job_begins_may_come_again(meeting):
    job = meeting.listen("-np", 2, "-H", "a:1,b:1", *TELL)
    first = meeting.join("a")
    job.wait_for(wording.HAS_JOINED.format(host="a").encode(), "err")

    first.signal(signal.SIGKILL)
    job.wait_for(wording.LEFT_EARLY.encode(), "err")
    joiners = [meeting.join(name) for name in "ab"]

    assert [one.end().code for one in (job, *joiners)] == [0, 0, 0]


def test_who_has_not_joined_in_time_is_named(meeting):
    job = meeting.listen("-np", 3, "-H", "a:1,b:1,c:1", "--start-timeout", 3, *TELL)
    joiner = meeting.join("b")

    ended = job.end()

    assert ended.code == 124
    assert wording.MISSING.format(count=1, all=3, hosts="a, c") in ended.said[-1]
    assert joiner.end().code == 125


def test_the_start_has_one_limit_which_counts_from_before_hosts_join(meeting):
    job = meeting.listen("-np", 2, "-H", "a:1,b:1", "--start-timeout", 6, *TELL)
    first = meeting.join("a")
    job.wait_for(wording.HAS_JOINED.format(host="a").encode(), "err")
    os.kill(first.process.pid, signal.SIGSTOP)  # first the guard, which then forks no agent
    for agent in children_of(first.process.pid):
        os.kill(agent.pid, signal.SIGSTOP)
    time.sleep(5)
    meeting.join("b")

    ended = job.end()

    assert ended.code == 124
    assert wording.NO_WORD_FROM.format(hosts="a") in ended.said[-1]
    # 6 s, and 5 s for the end of the agent that stands still; not 6 s once both have joined.
    assert ended.seconds < 14


def test_a_launcher_that_is_not_there_is_waited_for_until_the_deadline(launcher, token):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    flags = ("--join-token-file", token, "--start-timeout", 1)

    ended = launcher.run("--join", f"127.0.0.1:{port}", *flags)

    assert ended.code == 124
    assert f"127.0.0.1:{port}" in ended.err.decode()
    assert "refused" in ended.err.decode()


@pytest.mark.parametrize("has_file", [True, False])
def test_a_token_that_nobody_writes_is_waited_for_until_the_deadline(launcher, tmp_path, has_file):
    os.mkfifo(tmp_path / "token")
    flags = ("--join-token-file", tmp_path / "token") if has_file else ()
    silent, writing = os.pipe()

    ended = launcher.run("--join", "127.0.0.1:4", *flags, "--start-timeout", 1, stdin=silent)
    os.close(silent)
    os.close(writing)

    assert ended.code == 124
    assert wording.NO_TOKEN_LINE in ended.stderr


def test_what_answers_otherwise_is_no_horovodrun(launcher, token):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with launcher.start("--join", f"127.0.0.1:{port}", "--join-token-file", token) as joiner:
            connection, _ = server.accept()
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" + b" " * 64)
            ended = joiner.end()
            connection.close()

    assert ended.code == 125
    assert wording.NO_HOROVODRUN in ended.stderr


LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listening", flush=True)
sys.stdin.read()
"""


def test_a_port_that_is_taken_is_told(launcher, token):
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as others:
        port = server.getsockname()[1]
        for other in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):  # have the port, but not this one
            program = others.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", LISTEN, other, str(port)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            assert program.stdout.readline() == b"listening\n"
        where = ("--listen", f"127.0.0.1:{port}", "--join-token-file", token)
        ended = launcher.run("-np", 1, *where, "true")

    assert ended.code == 2
    assert f"--listen 127.0.0.1:{port}" in ended.said[-1]
    holder = {"pid": os.getpid(), "user": r"\S+", "command": ".*pytest.*"}
    assert re.search(wording.pattern(wording.PORT_TAKEN, **holder), ended.said[-1]), ended.said


def test_garbage_and_silent_connections_disturb_nobody(meeting):
    job = meeting.listen("-np", 1, "-H", "a:1", *TELL)
    with contextlib.ExitStack() as stack:
        for number in range(150):
            silent = socket.create_connection(("127.0.0.1", meeting.port))
            stack.enter_context(silent)
            with contextlib.suppress(OSError):
                silent.sendall((b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(200))[number % 3])
        began = time.monotonic()
        joiner = meeting.join("a")
        ended = job.end()
        took = time.monotonic() - began

    assert (ended.code, joiner.end().code) == (0, 0), ended.err
    assert took < 10  # the timeout of an unauthenticated connection
    assert len(ended.said) < 40


def test_nobody_can_join_any_more_once_all_have(meeting):
    job = meeting.listen("-np", 1, "-H", "a:1", "sh", "-c", "echo up; sleep 1")
    meeting.join("a")
    job.wait_for(b"up")

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", meeting.port))

    assert job.end().code == 0


@pytest.mark.parametrize("whose", ["guard", "agent"])
def test_who_joined_and_dies_is_a_lost_host(meeting, whose):
    sleep = f"sleep 97.{secrets.randbelow(10**8):08}"
    job = meeting.listen("-np", 1, "-H", "a:1", "--grace", 1, "sh", "-c", f"echo up; {sleep}")
    joiner = meeting.join("a")
    job.wait_for(b"up")
    guard = joiner.process.pid
    (agent,) = (one.pid for one in children_of(guard))

    os.kill(guard if whose == "guard" else agent, signal.SIGKILL)
    ended = job.end()

    assert ended.code == 125
    said = "\n".join(ended.said)
    assert wording.LOST_AGENT.format(host="a", why="") in said
    if whose == "agent":
        assert wording.STREAM_CUT in said
    wait_until_gone(sleep, 2)


def test_another_build_is_refused_on_both_sides_with_both_builds(meeting, agent_program, tmp_path):
    agent = agent_program
    build = subprocess.run([agent, "--version"], capture_output=True, check=True).stdout.strip()
    other = build[:-4] + (b"0000" if build[-4:] != b"0000" else b"1111")
    renamed = tmp_path / "hvd-agent"
    renamed.write_bytes(agent.read_bytes().replace(build, other))
    renamed.chmod(0o755)
    job = meeting.listen("-np", 1, "-H", "a:1", *TELL)

    refused = meeting.join("a", env={"HOROVOD_AGENT": str(renamed)}).end()
    accepted = meeting.join("a")
    ended = job.end()

    assert refused.code == 125
    for text in (refused.err, ended.err):
        assert build in text and other in text
    assert (ended.code, accepted.end().code) == (0, 0)


def test_a_launcher_that_dies_takes_all_ranks_along(meeting):
    sleep = f"sleep 97.{secrets.randbelow(10**8):08}"
    job = meeting.listen("-np", 2, "--join-hosts", 1, "sh", "-c", f"echo up; {sleep}")
    joiner = meeting.join("a")
    job.wait_until(lambda: job.text["out"].count(b"up") == 2, "two ranks")
    assert running(sleep)

    job.signal(signal.SIGKILL)

    wait_until_gone(sleep, 2)
    assert joiner.end().code == 125
    assert wording.LAUNCHER_GONE in joiner.end().stderr


def test_a_token_is_made_for_the_user_alone_and_taken_away(launcher, tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    where = ("--listen", "127.0.0.1:0", "--join-hosts", 1)
    with launcher.start("-np", 1, *where, "sh", "-c", "echo up", env=env) as job:
        said = job.wait_for(wording.COPY_OF.encode(), "err").decode()
        address = re.search(r"--join (\S+) ", said).group(1)
        (file,) = (tmp_path / "horovodrun").iterdir()
        mode, owner = file.stat().st_mode, file.stat().st_uid
        secret = file.read_text().strip()
        with launcher.start("--join", address, stdin=file.open()) as joiner:  # by standard input
            assert joiner.end().code == 0
        ended = job.end()

    assert ended.code == 0
    assert (stat.S_IMODE(mode), owner) == (0o600, os.geteuid())
    assert len(secret) == 64
    assert str(file) in said
    assert secret not in (ended.err + ended.out).decode()
    assert not file.exists()


def test_no_command_line_environment_or_log_has_the_token(meeting, tmp_path):
    script = "cat /proc/self/environ | tr '\\0' '\\n'; echo up; sleep 1"
    log = tmp_path / "log"
    flags = ("--verbose", "--output-filename", log, "--summary", tmp_path / "summary")
    env = {"HOROVOD_JOIN_TOKEN_FILE": str(meeting.token)}
    job = meeting.listen("-np", 2, "--join-hosts", 1, *flags, "sh", "-c", script, env=env)
    joiner = meeting.join("a", env=env)
    job.wait_until(lambda: job.text["out"].count(b":up") == 2, "two ranks")
    secret = meeting.token.read_text().strip()
    words = [secret.encode(), bytes.fromhex(secret)]

    holders = showing(words)
    ended, left = job.end(), joiner.end()

    assert (ended.code, left.code) == (0, 0), ended.err
    assert holders == []
    texts = [ended.out, ended.err, left.out, left.err]
    texts += [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    texts.remove(meeting.token.read_bytes())
    assert not any(word in text for word in words for text in texts)


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        (("--listen", "nowhere", "-np", 1, "true"), wording.MUST_BE_ADDRESS),
        (("--listen", ":4000", "-np", 1, "true"), wording.MUST_BE_ADDRESS),
        (("--listen", "192.0.2.1:4000", "-np", 1, "true"), wording.NO_ADDRESS_HERE),
        (("--listen", "127.0.0.1:0", "-H", "localhost:2", "true"), wording.WAITS_FOR_NOBODY),
        (("--listen", "127.0.0.1:0", "-H", "me@b:2", "true"), wording.NO_USER_OR_PORT),
        (("--join-hosts", 2, "-np", 1, "true"), wording.ADD_FLAG.format(flag="--listen")),
        (("--join", "127.0.0.1:4", "true"), wording.JOIN_TAKES_NONE),
        (("--join", "127.0.0.1:4", "-np", 1), wording.NOT_WITH_JOIN),
        (("--join-slots", 2, "-np", 1, "true"), wording.ADD_FLAG.format(flag="--join")),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(launcher, arguments, wanted):
    ended = launcher.run(*arguments)

    assert ended.code == 2
    assert wanted in ended.said[-1]


@pytest.mark.parametrize("where", [("--listen", "127.0.0.1:0"), ("--join", "127.0.0.1:4")])
def test_a_token_that_every_user_may_write_is_refused(launcher, token, where):
    token.chmod(0o666)
    command = ("-np", 1, "true") if where[0] == "--listen" else ()

    ended = launcher.run(*where, "--join-token-file", token, *command)

    assert ended.code == 2
    assert wording.WRITABLE_TOKEN.format(file=token) in ended.stderr


def test_a_short_token_is_refused(launcher, tmp_path):
    short = tmp_path / "short"
    short.write_text("secret\n")
    for where in (("--listen", "127.0.0.1:0", "-np", 1, "true"), ("--join", "127.0.0.1:4")):
        flags = ("--join-token-file", short)
        ended = launcher.run(*where[:2], *flags, *where[2:])
        assert ended.code == 2
        assert wording.SHORT_TOKEN in ended.stderr
