# SPDX-License-Identifier: Apache-2.0
"""horovod.run on several hosts: functions and results travel through the agents."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator

from cluster import Cluster
from support.hosts import Host

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds
SIZE = 3 << 20  # more than one piece
TIMEOUT = 100
PORT = 4100
TOKEN = "/root/token"

# The function of the ranks, and the caller, which prints the results.
PLACE = f"""
import hashlib, os, sys
import horovod

def place(data):
    import os
    return int(os.environ["HOROVOD_RANK"]), os.uname().nodename, data[::-1]

def tell(results):
    for rank, host, data in results:
        print("result", rank, host, data == content[::-1], flush=True)

content = os.urandom({SIZE})
"""
RUN = (
    PLACE
    + """
tell(horovod.run(place, (content,), hosts="h1:2,h2:1"))
"""
)
JOINED = (
    PLACE
    + """
from horovod.runner import messages
from horovod.runner.job import Result, start_job

flags = sys.argv[1:]
with start_job(flags, messages.encode_call(place, (content,))) as job:
    results = [event.value for event in job.events() if isinstance(event, Result)]
tell(sorted(results))
"""
)


@contextlib.contextmanager
def started(host: Host, *command: object) -> Iterator[subprocess.Popen[str]]:
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    process = subprocess.Popen(
        [*host.prefix(), *map(str, command)],
        env=host.environment("root", **passed_on),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def results_of(caller: subprocess.Popen[str]) -> list[str]:
    printed, errors = caller.communicate(timeout=TIMEOUT)
    assert caller.returncode == 0, errors
    return [line for line in printed.splitlines() if line.startswith("result")]


def test_functions_and_results_travel_over_ssh(cluster: Callable[..., Cluster]) -> None:
    hosts = cluster(2)

    with started(hosts.head, sys.executable, "-c", RUN) as caller:
        assert results_of(caller) == [
            "result 0 h1 True",
            "result 1 h1 True",
            "result 2 h2 True",
        ]


def test_functions_and_results_travel_to_hosts_that_join(cluster: Callable[..., Cluster]) -> None:
    hosts = cluster(2)
    token = secrets.token_hex(32)
    for host in hosts.hosts:
        host.path(TOKEN).write_text(token)
    listen = ("--listen", f"h1:{PORT}", "--join-token-file", TOKEN, "-np", "2", "-H", "h2:2")
    join = ("--join", f"h1:{PORT}", "--join-token-file", TOKEN)

    with (
        started(hosts.head, sys.executable, "-c", JOINED, hosts.program, *listen) as caller,
        started(hosts.hosts[1], hosts.program, *join),
    ):
        assert results_of(caller) == ["result 0 h2 True", "result 1 h2 True"]
