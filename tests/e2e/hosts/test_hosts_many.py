# SPDX-License-Identifier: Apache-2.0
"""Many hosts with one home, and agents inside of containers."""

from __future__ import annotations

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
