# SPDX-License-Identifier: Apache-2.0
"""The arguments of horovod.run become flags that horovodrun takes."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest

from horovod.common import elastic
from horovod.runner.flags import launcher_flags


def flags(**arguments: Any) -> list[str]:
    return launcher_flags(print, arguments)


NO_ARGUMENTS = ["--progress-bars=0"]


def test_none_is_no_flag() -> None:
    assert flags(num_proc=None, hosts=None, verbose=None, min_np=None) == NO_ARGUMENTS


def test_a_switch_that_is_off_is_no_flag() -> None:
    assert flags(verbose=0, use_mpi=False, disable_cache=False) == NO_ARGUMENTS


@pytest.mark.parametrize(
    "arguments",
    [
        {
            "num_proc": 2,
            "hosts": "localhost:2",
            "start_timeout": 20,
            "ssh_port": 2222,
            "ssh_identity_file": "/dev/null",
            "network_interfaces": ["lo"],
            "use_gloo": True,
            "disable_cache": True,
            "verbose": 1,
            "show": [0, 1],
        },
        {"num_proc": 2, "use_mpi": True, "mpi_args": "--tag-output"},
    ],
    ids=["gloo", "mpi"],
)
def test_horovodrun_takes_every_flag(horovodrun: Path, arguments: dict[str, Any]) -> None:
    command = [str(horovodrun), *flags(**arguments), "--dry-run", "true"]

    planned = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert planned.returncode == 0, planned.stderr
    assert "2 ranks" in planned.stdout
    assert arguments.get("mpi_args", "") in planned.stdout


def test_the_folder_for_output_is_a_flag() -> None:
    assert flags(output_filename="logs") == ["--output-filename=logs", *NO_ARGUMENTS]


def test_progress_bars_move_for_the_ranks_that_are_shown() -> None:
    assert flags(show=2) == ["--show=2", "--progress-bars=2"]


@pytest.mark.parametrize(
    ("old", "current", "value"),
    [("np", "num_proc", 3), ("network_interface", "network_interfaces", "eth0")],
)
def test_an_old_spelling_warns_and_means_the_same(old: str, current: str, value: Any) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old}=.*{current}="):
        found = flags(**{old: value})

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found == flags(**{current: value})


@pytest.mark.parametrize(
    "name",
    [
        "host_discovery_script",
        "max_np",
        "slots",
        "min_np",
        "cooldown_range",
        "max_num_proc",
        "reset_limit",
        "min_num_proc",
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_elastic_argument_raises_the_sentence_of_elastic_run(name: str) -> None:
    with pytest.raises(NotImplementedError) as expected:
        elastic.run(print)

    with pytest.raises(NotImplementedError) as found:
        flags(**{name: 1})

    assert str(found.value) == str(expected.value)


def test_hosts_and_hostfile_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="hosts and hostfile"):
        flags(hosts="a", hostfile="b")


def test_an_unknown_argument_is_named() -> None:
    with pytest.raises(TypeError, match="nump"):
        flags(nump=2)
