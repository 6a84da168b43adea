# SPDX-License-Identifier: Apache-2.0
"""LD_PRELOAD and LD_LIBRARY_PATH are meant for the ranks: horovodrun is a dynamic program too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

# In the place of libraries that horovodrun would find here, were it not linked with its own.
OTHERS = ("libstdc++.so.6", "libcrypto.so.3", "libssl.so.3", "libssh2.so.1", "libsodium.so.23")

PRELOADED = """
#include <string.h>
int loaded(void) { return 1; }
/* Functions that many a preloaded library replaces. */
char* getlogin(void) { return "nobody"; }
void* memfrob(void* area, size_t size) { return memset(area, 0, size); }
"""

TELL = "echo $LD_PRELOAD $LD_LIBRARY_PATH; grep -c preloaded.so /proc/self/maps"


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "preloaded.c").write_text(PRELOADED)
    for name in ("preloaded.so", *OTHERS):
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", tmp_path / name, tmp_path / "preloaded.c"],
            check=True,
            timeout=60,
        )
    return tmp_path


@pytest.mark.parametrize("host", ["localhost", "elsewhere"])
def test_ranks_get_them_unchanged_and_the_launcher_works(launcher, folder, host):
    shell = folder / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    shell.chmod(0o755)
    env = {"LD_PRELOAD": str(folder / "preloaded.so"), "LD_LIBRARY_PATH": str(folder)}
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}
    where = ("-H", f"{host}:1", "--remote-shell", str(shell))

    job = launcher.run(*where, "sh", "-c", TELL, env={**env, **cache})

    assert (job.code, job.err) == (0, b"")
    told, maps = job.lines
    assert told == f"[0]<stdout>:{folder}/preloaded.so {folder}"
    assert int(maps.removeprefix("[0]<stdout>:")) > 0
