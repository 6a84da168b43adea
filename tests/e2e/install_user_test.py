# SPDX-License-Identifier: Apache-2.0
"""Whoever is not root can use what root has installed, and is told what only root can do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import wording

NOBODY = 65534
BY_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that everybody can enter: pytest's own are for their owner alone."""
    with tempfile.TemporaryDirectory(prefix="horovod-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def as_nobody(open_folder) -> Run:
    """Runs a command as an ordinary user with a home of his own."""
    if os.geteuid() != 0:
        pytest.skip("not root: all tests run as an ordinary user already")
    home = open_folder / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)

    def run(*command: str | Path, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (*BY_NOBODY, *command),
            env={"PATH": path, "HOME": str(home)},
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture
def installed(prefix, open_folder) -> Path:
    """What `cmake --install` makes, in a place that everybody can read."""
    to = open_folder / "prefix"
    for part in ("bin/horovodrun", "bin/hvd-bench", "libexec/horovod", "lib/libhorovod.so"):
        (to / part).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (prefix / part).is_dir() else shutil.copy2
        copy(prefix / part, to / part)
    return to


def test_an_ordinary_user_runs_a_job(as_nobody, installed):
    path = f"{installed}/bin:/usr/bin:/bin"

    # Rank 0 has ended before rank 1 fails, which would stop it.
    program = "id -u; sleep $HOROVOD_RANK; exit $HOROVOD_RANK"
    ran = as_nobody("horovodrun", "-np", "2", "sh", "-c", program, path=path)
    bench = as_nobody("horovodrun", "-np", "2", "hvd-bench", "-e", "4096", path=path)

    assert ran.returncode == 1, ran.stderr
    assert sorted(ran.stdout.split()) == [f"[{rank}]<stdout>:{NOBODY}" for rank in (0, 1)]
    assert wording.culprit(1) in ran.stderr
    assert bench.returncode == 0, bench.stderr


def test_an_ordinary_user_is_told_which_packages_an_administrator_must_install(
    as_nobody, open_folder, root
):
    script = open_folder / "setup_debian_12.sh"
    shutil.copy(root / "scripts/setup_debian_12.sh", script)
    lacking = open_folder / "lacking.sh"
    lacking.write_text(script.read_text().replace("packages=(", "packages=(no-such-package\n", 1))

    complete = as_nobody("bash", script)
    missing = as_nobody("bash", lacking)

    assert complete.returncode == 0, complete.stderr
    assert missing.returncode == 1
    assert "ask an administrator for: apt-get install" in missing.stderr
    assert "no-such-package" in missing.stderr
