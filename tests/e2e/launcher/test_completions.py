# SPDX-License-Identifier: Apache-2.0
"""What shells offer for an unfinished command line. They ask the program for its flags."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# compopt works only while bash completes.
BASH = """
compopt() { :; }
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_horovodrun
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offers_of_bash(root: Path, program: Path, *words: str) -> set[str]:
    script = root / "apps/horovodrun/completions/horovodrun.bash"
    command = ["bash", "-c", BASH, "bash", str(script), str(program), *words]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert shown.stderr == ""
    return set(shown.stdout.split())


def offers_of_fish(root: Path, program: Path, line: str, home: Path) -> set[str]:
    script = root / "apps/horovodrun/completions/horovodrun.fish"
    shown = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(home)},
    )
    return {offer.split("\t")[0] for offer in shown.stdout.splitlines()}


def test_bash_completes_flags_up_to_the_command(root, horovodrun):
    def offers(*words):
        return offers_of_bash(root, horovodrun, *words)

    assert {"-np", "--dry-run", "--average-over"} <= offers("-")
    assert offers("--bind-to", "") == {"share", "none"}
    assert offers("--bind-to", "=", "sh") == {"share"}
    assert offers("--stdin", "") == {"all"}
    assert offers("-np", "2", "--out") == {"--output-filename", "--output-format"}
    assert offers("-H", "a", ":", "1,b", ":", "2", "--dry") == {"--dry-run"}
    assert {"doctor", "timeline"} <= offers("")
    assert "--json" in offers("doctor", "--js")
    assert "--autotune" not in offers("--au")
    for command in (["-np", "2", "echo", "--"], ["--", "--"], ["-np", "2", "--", "--"]):
        assert offers(*command) == set(), command


def test_bash_completes_files_and_folders_where_the_value_is_one(root, horovodrun, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    start = f"{tmp_path}/f"

    files = offers_of_bash(root, horovodrun, "--summary", start)
    folders = offers_of_bash(root, horovodrun, "--output-filename", start)

    assert files == {f"{tmp_path}/file", f"{tmp_path}/folder"}
    assert folders == {f"{tmp_path}/folder"}


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_flags_up_to_the_command(root, horovodrun, tmp_path):
    def offers(line):
        return offers_of_fish(root, horovodrun, line, tmp_path)

    assert {"--dry-run", "-np"} <= offers("horovodrun -np 2 -") | offers("horovodrun -n")
    assert offers("horovodrun --bind-to ") == {"share", "none"}
    assert "doctor" in offers("horovodrun doc")
    assert "--dry-run" not in offers("horovodrun -np 2 ls --")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script(root):
    script = root / "apps/horovodrun/completions/_horovodrun"

    subprocess.run(["zsh", "-n", script], check=True, timeout=60)
