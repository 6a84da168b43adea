# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a rank sees, on a machine whose driver is a fake with three of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import wording

TELL = """
import json, os
names = ("HOROVOD_RANK", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
print(json.dumps([os.environ.get(name) for name in names]))
"""
IN_BUS_ORDER = ["GPU-2", "GPU-1", "GPU-0"]
PCI = "PCI_BUS_ID"


@pytest.fixture(scope="module")
def driver(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    library = tmp_path_factory.mktemp("driver") / "fake_nvml.so"
    source = root / "tests/integration/agent/fake_nvml.cpp"
    command = ["c++", "-std=c++20", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(command, check=True, timeout=120)
    return {"HOROVOD_NVML_LIBRARY": str(library), "FAKE_NVML": "gpus"}


# Each rank's GPUs by index, and its CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
EXAMPLES = {
    "-np 2": [([0], None, PCI), ([1], None, PCI)],
    "-np 2 --gpu-bind env": [([0], "0", PCI), ([1], "1", PCI)],
    "-np 2 --gpu-bind none": [([], None, None), ([], None, None)],
    "-np 1 --gpus-per-rank 2": [([0, 1], None, PCI)],
    "-np 1 --gpus-per-rank 3 --gpu-bind env": [([0, 1, 2], "0,1,2", PCI)],
    "-np 4 --share-gpus": [([gpu], None, PCI) for gpu in (0, 1, 2, 0)],
    "-np 4 --share-gpus --gpu-bind env": [([gpu], str(gpu), PCI) for gpu in (0, 1, 2, 0)],
    "-np 2 --gpu-bind env --env CUDA_VISIBLE_DEVICES=1,2": [([1], "1", PCI), ([2], "2", PCI)],
    "-np 2 --gpu-bind env --env CUDA_VISIBLE_DEVICES=GPU-2,GPU-0": [
        ([0], "GPU-2", None),
        ([2], "GPU-0", None),
    ],
    "-np 4 --env CUDA_VISIBLE_DEVICES=": [([], "", None)] * 4,
}


@pytest.mark.parametrize("flags", EXAMPLES)
def test_a_rank_sees_what_the_plan_gives_it(launcher, driver, flags):
    command = (*flags.split(), "--bind-to", "none")

    planned = launcher.run(*command, "--dry-run", "--output-format", "json", "true", env=driver)
    ran = launcher.run(*command, sys.executable, "-S", "-c", TELL, env=driver)

    assert (planned.code, ran.code) == (0, 0), (planned.err, ran.err)
    plan = json.loads(planned.out)["ranks"]
    seen = sorted(json.loads(line.split(":", 1)[1]) for line in ran.lines)
    for rank, (gpus, mask, order) in enumerate(EXAMPLES[flags]):
        entry = plan[rank]
        expected = [{"index": index, "uuid": IN_BUS_ORDER[index]} for index in gpus]
        assert entry["gpus"] == expected
        assert seen[rank] == [str(rank), mask, order]
        planned_mask = entry["env"].get("CUDA_VISIBLE_DEVICES")
        assert planned_mask == mask and entry["env"].get("CUDA_DEVICE_ORDER") == order
    assert len(seen) == len(EXAMPLES[flags])


MIG_UUIDS = [
    "MIG-c7384736-a75d-5afc-978f-d2f1294409fd",
    "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d",
]


def test_a_rank_sees_its_own_mig_device_by_its_uuid(launcher, driver):
    env = {**driver, "FAKE_NVML": "mig"}
    command = ("-np", 4, "--gpu-bind", "env", "--bind-to", "none")

    planned = launcher.run(*command, "--dry-run", "--output-format", "json", "true", env=env)
    table = launcher.run(*command, "--dry-run", "true", env=env)
    ran = launcher.run(*command, sys.executable, "-S", "-c", TELL, env=env)

    assert (planned.code, table.code, ran.code) == (0, 0, 0), (planned.err, table.err, ran.err)
    ranks = json.loads(planned.out)["ranks"]
    devices = ["GPU-2", *MIG_UUIDS, "GPU-0"]
    assert [rank["gpus"] for rank in ranks] == [
        [{"index": index, "uuid": uuid}] for index, uuid in zip((0, 1, 1, 2), devices, strict=True)
    ]
    assert {rank["env"]["HOROVOD_GPU_OPERATIONS"] for rank in ranks} == {"host"}
    assert all(uuid in table.stdout for uuid in MIG_UUIDS)
    seen = sorted(json.loads(line.split(":", 1)[1]) for line in ran.lines)
    assert [mask for _, mask, _ in seen] == devices


def test_a_rank_with_a_mig_device_tells_who_uses_it(launcher, driver):
    env = {**driver, "FAKE_NVML": "mig"}
    command = (
        "-np",
        2,
        "--gpu-bind",
        "env",
        "--env",
        "CUDA_VISIBLE_DEVICES=" + ",".join(MIG_UUIDS),
    )

    job = launcher.run(*command, sys.executable, "-c", OUT_OF_MEMORY, env=env)

    assert job.code == 1
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    line = wording.GPU_USE.format(index=1, name=name, uuid=MIG_UUIDS[1])
    assert line in job.stderr, job.stderr


@pytest.mark.parametrize(
    "flags, sentence",
    [
        ("-np 2", wording.MIG_SEES_ALL.format(count=4)),
        ("-np 1 --gpu-bind env --gpus-per-rank 2", wording.MIG_SEES_ONE.format(count=2)),
        ("-np 5 --gpu-bind env", wording.FEW_GPUS.format(ranks=5, gpus=4)),
    ],
)
def test_more_than_one_mig_device_for_a_rank_is_refused(launcher, driver, flags, sentence):
    job = launcher.run(*flags.split(), "true", env={**driver, "FAKE_NVML": "mig"})

    assert job.code == 2
    assert sentence in job.said[-1]


def test_a_gpu_in_mig_mode_without_a_device_is_warned_about(launcher, driver):
    job = launcher.run("-np", 2, "true", env={**driver, "FAKE_NVML": "mig-empty"})

    assert job.code == 0
    assert wording.MIG_EMPTY.format(index=1, uuid="GPU-1") in job.stderr


@pytest.mark.parametrize(
    "flags, sentence",
    [
        ("-np 4", wording.FEW_GPUS.format(ranks=4, gpus=3)),
        ("-np 2 --gpus-per-rank 2", wording.FEW_GPUS_EACH.format(ranks=2, each=2, gpus=3)),
    ],
)
def test_more_ranks_than_gpus_are_refused(launcher, driver, flags, sentence):
    job = launcher.run(*flags.split(), "true", env=driver)

    assert job.code == 2
    assert sentence in job.said[-1]


OUT_OF_MEMORY = """
import os
import horovod.numpy as hvd
hvd.init()
print("pid", os.getpid(), flush=True)
raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB.")
"""


def test_a_rank_without_gpu_memory_tells_who_uses_it(launcher, driver):
    job = launcher.run("-np", 1, sys.executable, "-c", OUT_OF_MEMORY, env=driver)

    assert job.code == 1
    pid = job.lines[0].rpartition(" ")[2]
    line = wording.GPU_USE.format(index=1, name="Fake GPU 1", uuid="GPU-1")
    line += wording.GPU_USE_BY.format(
        used="4.0 GiB", size="0.0 GiB", pid=pid, mine="3.0 GiB", other=1
    )
    assert line in job.stderr, job.stderr


def test_hosts_that_join_have_the_slots_that_the_plan_gives_them(meeting, driver):
    job = meeting.listen("-np", 2, "--gpus-per-rank", 2, "--start-timeout", 4, "true", env=driver)
    meeting.join("a", env=driver)

    ended = job.end()

    assert ended.code == 124, ended.err
    assert wording.SLOTS_JOINED.format(hosts=1, slots=1, ranks=2) in ended.stderr


def test_the_kernel_tells_the_near_cpus_that_the_driver_does_not_know(
    driver, tmp_path, agent_program
):
    device = tmp_path / "bus/pci/devices/0000:3f:00.0"
    device.mkdir(parents=True)
    (device / "local_cpulist").write_text("8-11,40\n")

    found = subprocess.run(
        [agent_program.with_name("hvd-gpu-probe"), tmp_path],
        env={**driver, "FAKE_NVML": "far"},
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
    )

    lines = [line.split("\t") for line in found.stdout.splitlines()]
    near = [(line[2], line[5]) for line in lines if line[0] == "gpu"]
    assert near == [("GPU-2", ""), ("GPU-1", "8-11,40"), ("GPU-0", "")]


def test_the_doctor_names_the_nccl_of_the_ranks(launcher, driver, tmp_path):
    (tmp_path / "libnccl.so.2.27.3").touch()
    library = tmp_path / "libnccl.so.2"
    library.symlink_to("libnccl.so.2.27.3")
    env = {**driver, "FAKE_NVML": "mig", "HOROVOD_NCCL_LIBRARY": str(library)}

    said = launcher.run("doctor", env=env)
    found = launcher.run("doctor", "--json", env=env)

    assert wording.DOCTORS_GPUS.format(version="2.27.3") in said.lines[0]
    (host,) = json.loads(found.out)["hosts"]
    assert host["nccl"] == {"version": "2.27.3", "file": str(library)}
    assert host["facts"]["gpus"][1]["parent"] == "GPU-1"
