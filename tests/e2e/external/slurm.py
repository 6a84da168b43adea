# SPDX-License-Identifier: Apache-2.0
"""A real Slurm over simulated hosts: munged and slurmd on each, slurmctld on the first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import Ended, run_command
from external.worlds import PROGRAMS
from support.hosts import Host, Lab
from support.processes import wait_until_none

RANK = f"{sys.executable} {PROGRAMS}/slurm_rank.py"

# At which srun listens itself.
SRUN_PORTS = range(60001, 61001)

# All hosts share /home.
_FOLDER = "/home/slurm"
_CONF = """\
ClusterName=lab
SlurmctldHost=h1
SlurmUser=root
MailProg=/bin/true
AuthType=auth/munge
AuthInfo=cred_expire=10
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin={task_plugin}
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
StateSaveLocation=/run/slurm-state
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/run/slurmd
SlurmctldLogFile=/run/slurmctld.log
SlurmdLogFile=/run/slurmd.log
SlurmdParameters=config_overrides
KillWait=5
ReturnToService=2
SrunPortRange={srun_ports}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PropagateResourceLimitsExcept=ALL
GresTypes=gpu
NodeName=h[1-{count}] CPUs={cpus} Gres=gpu:4 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_START = """\
mkdir -p /run/munge /run/slurmd /run/slurm-state
for gpu in 0 1 2 3; do touch /run/gpu$gpu; mount --bind /dev/null /run/gpu$gpu; done
/usr/sbin/munged --force --key-file={folder}/munge.key --socket=/run/munge/munge.socket.2 \
  --pid-file=/run/munge/pid --seed-file=/run/munge/seed --log-file=/run/munge/log --num-threads=2
[ $(hostname) != h1 ] || /usr/sbin/slurmctld -f {folder}/slurm.conf -c
/usr/sbin/slurmd -f {folder}/slurm.conf -N $(hostname)
"""


@dataclass
class Batch:
    """A job that sbatch took."""

    slurm: Slurm
    number: str

    def state(self) -> str:
        """Such as RUNNING or COMPLETED."""
        return self._of_job().get("JobState", "unknown")

    def exit_code(self) -> str:
        """Code and signal, such as 3:0."""
        return self._of_job().get("ExitCode", "unknown")

    def output(self) -> str:
        path = Path(self.slurm.head.path(f"{_FOLDER}/{self.number}.out"))
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for(self, words: str, count: int = 1, seconds: float = 60) -> None:
        """Until its output has the words, so often."""
        _wait(lambda: self.output().count(words) >= count, seconds, lambda: self.output())

    def wait(self, seconds: float = 90) -> None:
        """Until nothing of it runs."""
        going_on = ("unknown", "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SIGNALING")
        _wait(
            lambda: self.state() not in going_on,
            seconds,
            lambda: f"{self.state()}: {self.output()}",
        )

    def _of_job(self) -> dict[str, str]:
        shown = self.slurm.run("scontrol", "-o", "show", "job", self.number, timeout=30)
        return dict(word.split("=", 1) for word in shown.stdout.split() if "=" in word)


def said(batch: Batch) -> list[dict[str, Any]]:
    """What the ranks of RANK printed, without the tags, in the order of ranks."""
    lines = [line.partition(">:")[2] for line in batch.output().splitlines() if ">:{" in line]
    return sorted(map(json.loads, lines), key=lambda one: one["rank"])


def _wait(is_so: Callable[[], bool], seconds: float, describe: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not within {seconds} s; {describe()}"
        time.sleep(0.1)


class Slurm:
    def __init__(self, lab: Lab, task_plugin: str = "task/none", cpus: int = 4) -> None:
        self.head = lab[0]
        self.nodes = lab.hosts
        folder = Path(self.head.path(_FOLDER))
        folder.mkdir()
        (folder / "slurm.conf").write_text(
            _CONF.format(
                count=len(lab.hosts),
                task_plugin=task_plugin,
                cpus=cpus,
                srun_ports=f"{SRUN_PORTS[0]}-{SRUN_PORTS[-1]}",
            )
        )
        # Slurm 22.05 wants one, also where no cgroup is used.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        # Any device will do: to make one takes more rights than to mount.
        (folder / "gres.conf").write_text("Name=gpu File=/run/gpu[0-3]\n")
        folder.chmod(0o777)
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        starts = [self._start(host) for host in lab.hosts]
        for start in starts:
            _, error = start.communicate(timeout=30)
            assert start.returncode == 0, error
        self._wait_until_idle(len(lab.hosts))

    def _start(self, host: Host) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*host.prefix(), "bash", "-ec", _START.format(folder=_FOLDER)],
            env=host.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _wait_until_idle(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while True:
            nodes = self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N", timeout=10)
            if len(nodes.stdout.split()) == count:
                return
            assert time.monotonic() < deadline, f"nodes did not become idle: {nodes}"
            time.sleep(0.1)

    def sbatch(self, script: str, *options: str, user: str = "root") -> Batch:
        """Submits lines of bash."""
        return self.submit(f"#!/bin/bash\n{script}\n", *options, user=user)

    def submit(
        self,
        text: str,
        *options: str,
        arguments: tuple[str, ...] = (),
        user: str = "root",
        **variables: str,
    ) -> Batch:
        """Submits a whole script, from a folder that all nodes share."""
        folder = Path(self.head.path(_FOLDER))
        (folder / "script").write_text(text)
        # The user writes it.
        name = "%A_%a" if "--array" in text else "%j"
        result = self.run(
            *("sbatch", "--parsable", "-D", "/", f"--output={_FOLDER}/{name}.out"),
            *(*options, f"{_FOLDER}/script", *arguments),
            user=user,
            **variables,
        )
        assert result.code == 0, result
        return Batch(self, result.stdout.strip())

    def run(
        self, *command: str, user: str = "root", timeout: float = 60, **variables: str
    ) -> Ended:
        """A command on the first host."""
        settings = {"SLURM_CONF": f"{_FOLDER}/slurm.conf", "HOROVOD_LOG_LEVEL": "info"}
        for name in ("HOROVOD_LIBRARY", "PYTHONPATH"):
            if value := os.environ.get(name):
                settings[name] = value
        return run_command(
            *(*self.head.prefix(user), *command),
            timeout=timeout,
            env=self.head.environment(user, **{**settings, **variables}),
        )


def wait_until_nothing_is_left(slurm: Slurm) -> None:
    service = ("munged", "slurmctld", "slurmd", "slurmscriptd")
    wait_until_none(
        lambda: [
            (node.name, one)
            for node in slurm.nodes
            for one in node.jobs()
            if one.name not in service
        ],
        20,
    )
