# SPDX-License-Identifier: Apache-2.0
"""One training, started in every way: the same world makes the same losses."""

from __future__ import annotations

import gzip
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Ended
from external.slurm import Slurm
from external.worlds import environment, run

RANKS = "4"
EPOCHS = 3
FLAGS = ("--epochs", str(EPOCHS), "--batch-size", "16")
DATA = Path("/usr/share/datasets/fashion-mnist")
IMAGES = {"train": 128, "t10k": 64}  # a short beginning: reading all of them takes longer
# Of all of them alike: who has more threads may add in another order.
THREADS = {"OMP_NUM_THREADS": "1"}
MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
TORCHRUN = str(Path(sys.executable).parent / "torchrun")
LIMIT = 120  # seconds for one of them, also on a busy machine

Losses = list[tuple[str, str]]


def losses_of(ended: Ended) -> Losses:
    """Of each epoch: the loss of training, and what share of the test images it gets right."""
    assert ended.code == 0, ended
    found = re.findall(r"loss ([0-9.]+), test accuracy ([0-9.]+)", ended.stdout)
    assert len(found) == EPOCHS, ended
    return found


def cut_data(folder: Path) -> None:
    """The same files with fewer images. The count is the second of the big-endian words."""
    for split, count in IMAGES.items():
        for kind, header, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
            name = f"{split}-{kind}-ubyte.gz"
            data = gzip.decompress((DATA / name).read_bytes())
            body = data[header : header + count * size]
            cut = data[:4] + count.to_bytes(4, "big") + data[8:header] + body
            (folder / name).write_bytes(gzip.compress(cut))


def batch(slurm: Slurm, *command: str) -> Ended:
    """What a job on two nodes wrote, of two tasks on each."""
    job = slurm.sbatch(" ".join(command), "--nodes=2", "--ntasks-per-node=2")
    job.wait(LIMIT)
    return Ended(int(job.exit_code().split(":")[0]), job.output().encode(), b"")


def test_the_same_training_under_every_launcher(
    slurm: Slurm, horovodrun: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    ours = str(horovodrun)
    data = Path(slurm.head.path("/home/fashion-mnist"))  # the hosts see it under this name
    data.mkdir()
    cut_data(data)
    program = (sys.executable, str(root / "examples/torch_fashion_mnist.py"), *FLAGS)
    training = (*program, "--data-dir", str(data))
    inside = (*program, "--data-dir", "/home/fashion-mnist")

    def here(*command: str, **variables: str) -> Callable[[], Ended]:
        settings = environment(**THREADS, **variables)
        return lambda: run(*command, *training, timeout=LIMIT, env=settings)

    ways: dict[str, Callable[[], Ended]] = {
        "horovodrun": here(ours, "-np", RANKS),
        "horovodrun --mpi (Open MPI)": here(
            ours, "--mpi", "-np", RANKS, HOROVOD_MPIRUN="mpirun.openmpi"
        ),
        "horovodrun --mpi (MPICH)": here(
            ours, "--mpi", "-np", RANKS, HOROVOD_MPIRUN="mpiexec.hydra"
        ),
        "mpirun": here(*MPIRUN, "-np", RANKS),
        "mpirun horovodrun": here(*MPIRUN, "-np", RANKS, ours),
        "torchrun": here(TORCHRUN, "--standalone", "--nproc-per-node", RANKS, "--no-python"),
        "srun": lambda: slurm.run("srun", "-N1", "-n4", *inside, timeout=LIMIT, **THREADS),
        "sbatch, two nodes": lambda: batch(
            slurm, "export OMP_NUM_THREADS=1;", ours, "-np", RANKS, *inside
        ),
    }
    table: dict[str, Losses] = {}
    with capsys.disabled():
        print()
        for name, start in ways.items():
            began = time.monotonic()
            table[name] = losses_of(start())
            shown = "  ".join(f"{loss} ({accuracy})" for loss, accuracy in table[name])
            print(f"{name:28} {time.monotonic() - began:5.1f} s  losses {shown}", flush=True)

    expected = table["horovodrun"]
    assert {name: losses for name, losses in table.items() if losses != expected} == {}
