# SPDX-License-Identifier: Apache-2.0
"""Many hosts with one home, and agents inside of containers."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from cluster import slots

APPTAINER = """#!/bin/sh
[ "$1" = exec ] && [ "$2" = img.sif ] || exit 9
shift 2
exec unshare --mount --uts sh -c 'mount -t tmpfs none /opt; hostname inside; exec "$@"' sh "$@"
"""


def test_64_hosts_with_one_home_start_at_once_without_a_torn_file(cluster, horovodrun: Path):
    hosts = cluster(64)

    job = hosts.run("-np", 63, "-H", slots(hosts.hosts[1:]), "hostname")

    assert (job.code, len(job.lines)) == (0, 63), job.err[-2000:]
    assert {line.split(":")[1] for line in job.lines} == {f"h{n}" for n in range(2, 65)}
    cache = hosts.head.path("/root/.cache/horovodrun")
    files = [path for path in cache.rglob("*") if not path.is_dir()]
    assert [path.name for path in files] == ["hvd-agent"], files  # nothing half written is left
    tree = horovodrun.resolve().parents[1]
    places = (tree / "libexec/horovod/hvd-agent", tree / "bin/hvd-agent")
    ours = next(path for path in places if path.exists())
    assert files[0].read_bytes() == ours.read_bytes()
    hosts.wait_until_clean(2)


def test_the_agent_starts_inside_of_a_container(cluster):
    hosts = cluster(3)
    wrapper = hosts.head.path("/root/apptainer")
    wrapper.write_text(APPTAINER)
    wrapper.chmod(0o755)
    flags = ("--wrap", "/root/apptainer exec img.sif")
    tell = ("sh", "-c", "echo $(hostname) $MINE $(ls /opt | wc -l)")

    job = hosts.run("-np", 2, "-H", "h2:1,h3:1", *flags, *tell, env={"MINE": "a b"})

    assert sorted(job.lines) == [f"[{rank}]<stdout>:inside a b 0" for rank in range(2)], job.err
    hosts.wait_until_clean(1)


WRITE = """
import os
written = 0
while True:
    written += os.write(1, b"x" * 65535 + b"\\n")
    with open("/root/new." + os.environ["HOROVOD_RANK"], "w") as file:
        file.write(str(written))
    os.rename(file.name, "/root/written." + os.environ["HOROVOD_RANK"])
"""


def test_hosts_share_one_budget_of_output_that_waits(cluster):
    hosts = cluster(9)
    hosts.head.path("/root/write.py").write_text(WRITE)
    budget, pipes = 16 << 20, 8 * (512 << 10)

    def written() -> list[int]:
        files = [hosts.head.path(f"/root/written.{rank}") for rank in range(8)]
        return [int(file.read_text()) if file.exists() else 0 for file in files]

    with hosts.start("-H", slots(hosts.hosts[1:]), sys.executable, "/root/write.py") as job:
        deadline = time.monotonic() + 60
        seen, still = [0], 0
        while still < 5 or not all(seen):  # nobody reads, and for a second nobody has written
            assert time.monotonic() < deadline, seen
            time.sleep(0.2)
            now = written()
            seen, still = now, still + 1 if now == seen else 0
        job.signal(signal.SIGTERM)
        job.end()

    assert budget / 2 < sum(seen) <= budget + pipes
