# SPDX-License-Identifier: Apache-2.0
"""horovodrun in allocations of a real Slurm: srun starts an agent on each node."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import contract
import pytest
import wording
from external.slurm import RANK, Batch, Slurm, said, wait_until_nothing_is_left
from support.hosts import Lab, why_not
from support.hosts.lab import tool


def test_two_nodes_of_sbatch_give_the_ranks_without_a_flag_or_ssh(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(
        f"export MARK=passed\nexec {horovodrun} --verbose {RANK}", "-N2", "--ntasks-per-node=2"
    )
    batch.wait()

    world = said(batch)
    assert [rank["rank"] for rank in world] == [0, 1, 2, 3], batch.output()
    assert [rank["host"] for rank in world] == ["h1", "h1", "h2", "h2"]
    assert [rank["local"] for rank in world] == [[0, 2], [1, 2], [0, 2], [1, 2]]
    assert [rank["cross"] for rank in world] == [[0, 2], [0, 2], [1, 2], [1, 2]]
    assert {rank["size"] for rank in world} == {4}
    assert batch.state() == "COMPLETED"
    assert "srun" in batch.output()


def test_ranks_keep_the_variables_of_the_allocation_and_none_of_their_agents_task(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(
        f"env | grep ^SLURM_ | sed s/^/batch:/\nexec {horovodrun} {RANK}",
        *("-N2", "--ntasks=3", "--ntasks-per-node=2"),
    )
    batch.wait()

    of_batch = dict(
        line.removeprefix("batch:").split("=", 1)
        for line in batch.output().splitlines()
        if line.startswith("batch:")
    )
    world = said(batch)
    assert len(world) == 3, batch.output()
    for rank in world:
        variables = rank["variables"]
        for name in ("JOB_ID", "NTASKS", "NNODES", "NTASKS_PER_NODE", "TASKS_PER_NODE"):
            assert variables[f"SLURM_{name}"] == of_batch[f"SLURM_{name}"]
        assert variables["SLURMD_NODENAME"] == rank["host"]
        gone = ("PROCID", "LOCALID", "NODEID", "GTIDS", "TASK_PID", "STEP", "CPU_BIND", "SRUN")
        assert not [
            name
            for name in variables
            if name.startswith(("SRUN_", "PMI", *(f"SLURM_{word}" for word in gone)))
        ]


def test_more_ranks_than_the_allocation_has_tasks_are_refused(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(f"exec {horovodrun} -np 5 {RANK}", "-N2", "--ntasks-per-node=2")
    batch.wait()

    too_many = {"np": 5, "tasks": 4, "job": f"Slurm job {batch.number}", "hosts": "h1:2,h2:2"}
    assert wording.MORE_THAN_TASKS.format(**too_many) in batch.output()
    assert batch.exit_code() == "2:0"


def test_all_components_of_a_heterogeneous_job_are_one_world(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(
        f"exec {horovodrun} --verbose {RANK}",
        *("-N1", "-n2", "--gpus-per-task=1", ":", "-N1", "-n1", "--gres=gpu:3"),
    )
    batch.wait()

    world = said(batch)
    assert [rank["host"] for rank in world] == ["h1", "h1", "h2"], batch.output()
    masks = [rank["variables"]["CUDA_VISIBLE_DEVICES"] for rank in world]
    assert masks == ["0,1", "0,1", "0,1,2"]
    assert {rank["size"] for rank in world} == {3}
    assert "h1 (2 slots, srun), h2 (1 slot, srun)" in batch.output()
    assert batch.state() == "COMPLETED"
    wait_until_nothing_is_left(slurm)


def test_salloc_on_one_node_starts_its_ranks_there_too(slurm: Slurm, horovodrun: Path) -> None:
    ended = slurm.run("salloc", "-Q", "-N1", "-w", "h2", "-n2", str(horovodrun), *RANK.split())

    assert ended.code == 0, ended
    assert ended.stdout.count('"host": "h2"') == 2


def test_an_ordinary_user_needs_no_shared_folder_for_the_agent(
    slurm: Slurm, horovodrun: Path, agent_program: Path
) -> None:
    ended = slurm.run(
        *("salloc", "-Q", "-N2", "--ntasks-per-node=1", "sh", "-c"),
        f"cp {horovodrun} {agent_program} /tmp/ && /tmp/horovodrun {RANK}",
        user="tester",
    )

    assert ended.code == 0, ended
    assert '"host": "h1"' in ended.stdout
    assert '"host": "h2"' in ended.stdout
    assert not [*Path(slurm.nodes[1].path("/tmp")).glob("hvd-agent*")]


def counts(batch: Batch) -> list[dict[str, int]]:
    """Of signals, of each rank."""
    return [one["counts"] for one in said(batch) if "counts" in one]


@pytest.mark.parametrize("to", ["--signal=USR1", "--batch --signal=USR1", "--full --signal=USR1"])
def test_a_signal_by_scancel_reaches_each_rank_once(
    slurm: Slurm, horovodrun: Path, to: str
) -> None:
    batch = slurm.sbatch(f"exec {horovodrun} {RANK} 30", "-N2", "--ntasks-per-node=1")
    batch.wait_for(">:{", 2)
    slurm.run("scancel", *to.split(), batch.number)
    batch.wait()

    assert counts(batch) == [{"USR1": 1, "USR2": 0, "TERM": 0}] * 2, batch.output()
    is_of_step = to == "--signal=USR1"
    assert (wording.SENT_TO_STEP in batch.output()) == is_of_step
    assert batch.state() == "COMPLETED"


def test_the_signal_before_the_end_reaches_each_rank_once(slurm: Slurm, horovodrun: Path) -> None:
    script = f"exec {horovodrun} {RANK} 110"
    # Slurm looks every half minute: with less time it might find ranks that are not yet ready.
    options = ("-N2", "--ntasks-per-node=1", "--time=2")
    to_step = slurm.sbatch(script, *options, "--signal=USR1@60")
    to_batch = slurm.sbatch(script, *options, "--signal=B:USR1@60")
    for batch in (to_step, to_batch):
        batch.wait(seconds=150)
        assert counts(batch) == [{"USR1": 1, "USR2": 0, "TERM": 0}] * 2, batch.output()


@pytest.mark.parametrize("script", ["exec {}", "{}\ntrue"])
def test_scancel_ends_each_rank_once_and_leaves_nothing(
    slurm: Slurm, horovodrun: Path, script: str
) -> None:
    batch = slurm.sbatch(script.format(f"{horovodrun} {RANK} 30"), "-N2", "--ntasks-per-node=1")
    batch.wait_for(">:{", 2)
    slurm.run("scancel", batch.number)
    batch.wait()

    assert counts(batch) == [{"USR1": 0, "USR2": 0, "TERM": 1}] * 2, batch.output()
    assert batch.state() == "CANCELLED"
    wait_until_nothing_is_left(slurm)


def test_ranks_that_a_signal_of_slurm_ends_have_not_failed(slurm: Slurm, horovodrun: Path) -> None:
    batch = slurm.sbatch(
        f"{horovodrun} sh -c 'echo begun; sleep 60'; exit $?", "-N2", "--ntasks-per-node=1"
    )
    batch.wait_for("begun", 2)
    slurm.run("scancel", "--signal=TERM", batch.number)
    batch.wait()

    assert wording.STOPPED_BY_SLURM in batch.output()
    assert "culprit" not in batch.output()
    assert batch.exit_code() == "143:0"
    wait_until_nothing_is_left(slurm)


def test_a_rank_that_fails_ends_the_batch_with_its_code_and_leaves_nothing(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(
        f"exec {horovodrun} sh -c '[ $HOROVOD_RANK = 0 ] && sleep 60; exit 7'",
        *("-N2", "--ntasks-per-node=1"),
    )
    batch.wait()

    assert wording.culprit(1, host="h2") in batch.output()
    assert batch.exit_code() == "7:0"
    wait_until_nothing_is_left(slurm)


def test_ranks_see_the_gpus_that_slurm_gave_on_their_own_node(
    slurm: Slurm, horovodrun: Path
) -> None:
    other = slurm.sbatch("exec sleep 60", "-N1", "-w", "h2", "--gres=gpu:2")
    _wait_for_state(other, "RUNNING")
    batch = slurm.sbatch(f"exec {horovodrun} {RANK}", "-N2", "--ntasks-per-node=2", "--gres=gpu:2")
    batch.wait()
    slurm.run("scancel", other.number)
    other.wait()

    masks = [(one["host"], one["variables"]["CUDA_VISIBLE_DEVICES"]) for one in said(batch)]
    assert masks == [("h1", "0,1"), ("h1", "0,1"), ("h2", "2,3"), ("h2", "2,3")]


def test_gpus_by_task_are_seen_by_all_ranks_of_a_node_and_each_owns_its_own(
    slurm: Slurm, horovodrun: Path
) -> None:
    fake = tool().with_name("fake_nvml.so")
    plan = f"HOROVOD_NVML_LIBRARY={fake} FAKE_NVML=gpus {horovodrun} --dry-run {RANK} >&2"
    batch = slurm.sbatch(
        f"{plan}\nexec {horovodrun} {RANK}", "-N2", "--ntasks=3", "--gpus-per-task=1"
    )
    batch.wait()

    masks = [(one["host"], one["variables"]["CUDA_VISIBLE_DEVICES"]) for one in said(batch)]
    assert masks == [("h1", "0,1"), ("h1", "0,1"), ("h2", "0")], batch.output()
    owned = re.findall(r"^(\d) +(h\d) +\S+ +\S+ +(\d+) ", batch.output(), re.MULTILINE)
    assert owned == [("0", "h1", "0"), ("1", "h1", "1"), ("2", "h2", "0")], batch.output()
    for node in ("h1", "h2"):
        line = rf"^  {node}: srun --.*{re.escape(wording.SHELL_LINE)}"
        assert re.search(line, batch.output(), re.MULTILINE)


def _wait_for_state(batch: Batch, state: str) -> None:
    deadline = time.monotonic() + 30
    while batch.state() != state:
        assert time.monotonic() < deadline, batch.state()
        time.sleep(0.1)


def test_a_job_ends_with_its_allocation(slurm: Slurm, horovodrun: Path) -> None:
    batch = slurm.sbatch(
        f"export SLURM_JOB_END_TIME=$(($(date +%s) + 15))\nexec {horovodrun} {RANK} 60",
        *("-N2", "--ntasks-per-node=1"),
    )
    batch.wait()

    assert re.search(wording.pattern(wording.ALLOCATION_ENDS, time=r"[\dT:-]+"), batch.output())
    assert counts(batch) == [{"USR1": 0, "USR2": 0, "TERM": 1}] * 2, batch.output()
    assert batch.exit_code() == "124:0"


def test_a_node_that_goes_down_is_named(horovodrun: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with Lab(2) as lab:
        slurm = Slurm(lab)
        batch = slurm.sbatch(
            f"exec {horovodrun} --grace 1 {RANK} 60", "-N2", "--ntasks-per-node=1", "--no-kill"
        )
        batch.wait_for(">:{", 2)
        lab[1].kill()
        # Slurm itself takes longer to see it, and the batch completes only then.
        batch.wait_for(wording.LOST_AGENT.format(host="h2", why=""), seconds=30)
        batch.wait_for(wording.LOST_RANKS.format(ranks="1"), seconds=10)


@pytest.fixture
def firewall(slurm: Slurm) -> Iterator[None]:
    """On h2: nothing gets out to ports from 40000 to 40009."""
    rules = """
        table inet t {
          chain c {
            type filter hook output priority 0
            tcp dport 40000-40009 drop
          }
        }"""
    node = slurm.nodes[1]
    node.run("nft", "-f", "-", stdin=None, input=rules).check_returncode()
    yield
    node.run("nft", "delete", "table", "inet", "t").check_returncode()


def test_a_node_that_cannot_reach_the_launcher_is_named_with_what_to_do(
    slurm: Slurm, horovodrun: Path, firewall: None
) -> None:
    options = "--port-range 40000-40009 --start-timeout 12"
    nodes = ("-N2", "--ntasks-per-node=1")
    batch = slurm.sbatch(f"exec {horovodrun} {options} {RANK}", *nodes)
    examined = slurm.sbatch(f"exec {horovodrun} doctor {options} {RANK}", *nodes)
    batch.wait()

    words = batch.output()
    missing = wording.MISSING.format(count=1, all=2, hosts="h2") + wording.SEE_WHETHER
    assert f"within --start-timeout: {missing}" in words
    assert wording.OVERLAPPING_STEP.format(job=batch.number) in words
    assert wording.NODE_CONNECTIONS in words
    assert wording.SRUN_SAYS_AGENT.format(host="h2", address="10.77.0.2:4000") in words
    assert batch.exit_code() == "124:0"

    examined.wait()
    assert "PASS  h1  " in examined.output()
    assert "FAIL  h2\n" in examined.output()
    assert wording.MISSING_HOSTS.format(hosts="h2") + wording.SEE_WHETHER in examined.output()
    assert examined.exit_code() == "1:0"
    wait_until_nothing_is_left(slurm)


def test_the_doctor_reaches_the_nodes_as_a_job_does(slurm: Slurm, horovodrun: Path) -> None:
    batch = slurm.sbatch(f"exec {horovodrun} doctor {RANK}", "-N2", "--ntasks-per-node=2")
    batch.wait()

    assert batch.exit_code() == "0:0", batch.output()
    verdicts = [line[:8] for line in batch.output().splitlines() if line[:4] in ("PASS", "FAIL")]
    assert verdicts == ["PASS  h1", "PASS  h2", "PASS  h1"], batch.output()
    wait_until_nothing_is_left(slurm)


def test_in_the_only_task_of_a_step_with_pmi_it_takes_the_allocation(
    slurm: Slurm, horovodrun: Path
) -> None:
    batch = slurm.sbatch(f"exec srun -n1 --mpi=pmi2 {horovodrun} --verbose {RANK}", "-N1", "-n1")
    batch.wait()

    assert [(one["rank"], one["host"]) for one in said(batch)] == [(0, "h1")], batch.output()


def test_one_task_of_srun_has_the_contract_of_the_ranks(slurm: Slurm, horovodrun: Path) -> None:
    """With PMI, which is Slurm's own."""
    script = contract.telling("$HOROVOD_HOSTNAME")
    batch = slurm.sbatch(
        f"exec srun --mpi=pmi2 {horovodrun} sh -c '{script}'", "-N2", "--ntasks-per-node=2"
    )
    batch.wait()

    assert contract.told_with_more(batch.output()) == list(
        zip(contract.of_hosts(2, 2), ["h1", "h1", "h2", "h2"], strict=True)
    )


def test_horovod_run_has_the_slots_of_the_allocation(slurm: Slurm) -> None:
    program = """
import horovod

def place(data):
    import os
    return os.uname().nodename, data[:1]

print("results", horovod.run(place, (bytes(3 << 20),)))
"""
    script = f"exec {sys.executable} - <<'END'{program}END"
    batch = slurm.sbatch(script, "-N2", "--ntasks-per-node=1")
    batch.wait()

    assert "results [('h1', b'\\x00'), ('h2', b'\\x00')]" in batch.output()
    assert batch.state() == "COMPLETED"
