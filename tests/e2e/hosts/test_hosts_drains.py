# SPDX-License-Identifier: Apache-2.0
"""A host whose agent is told to end, as when a node is drained, is the cause; no rank is.

The ranks wait for each other in a collective, so that those of other hosts miss the ones that the
agent ends, and say so in any order.
"""

from __future__ import annotations

import os
import signal
import sys

import pytest
import wording

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds

# Rank 1 keeps the others waiting. It ends by TERM as Python does, or in order.
WAITING = """
import signal, sys, time
from horovod.common.basics import HorovodBasics
from horovod.common.operations import barrier

basics = HorovodBasics()
basics.init()
if "in-order" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
barrier("first")
print("ready", flush=True)
if basics.rank() == 1:
    time.sleep(60)
barrier("second")
"""


@pytest.mark.parametrize("end", ["by-signal", "in-order"])
@pytest.mark.parametrize("name", ["TERM", "KILL"])
@pytest.mark.parametrize("victim", [0, 1], ids=["guard", "agent"])
def test_a_host_whose_guard_or_agent_is_told_to_end_is_the_cause(cluster, victim, name, end):
    hosts = cluster(3)
    hosts.head.path("/root/waiting.py").write_text(WAITING)
    flags = (
        "-np",
        4,
        "-H",
        "h1:1,h2:1,h3:2",
        "--grace",
        2,
        "--summary",
        "/root/summary.json",
    )
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    command = (sys.executable, "/root/waiting.py", end)

    with hosts.start(*flags, *command, env=env) as job:
        job.wait_until(lambda: job.text["out"].count(b"ready\n") == 4, "four times ready")
        os.kill(hosts.hosts[1].find("hvd-agent")[victim].pid, getattr(signal, f"SIG{name}"))
        ended = job.end()

    summary = hosts.summary_of(ended)
    assert (ended.code, summary["reason"]) == (125, "host_lost"), ended.err
    assert (summary["culprit"]["host"], summary["culprit"]["rank"]) == ("h2", None)
    assert [host["state"] for host in summary["hosts"]] == ["ok", "lost", "ok"]
    assert summary["hosts"][1]["error"] in summary["warnings"][0]
    assert wording.line(wording.LOST_AGENT, host="h2", why="") in ended.stderr
    assert "culprit" not in [rank["class"] for rank in summary["ranks"]]
    hosts.wait_until_clean(2)
