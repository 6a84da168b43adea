# SPDX-License-Identifier: Apache-2.0
"""The key of a job and what the environment holds are seen by nobody who should not see them."""

from __future__ import annotations

import base64
import os
import subprocess
import sys

import pytest
from support.processes import showing, table

PASSED_ON = ("PYTHONPATH", "HOROVOD_LIBRARY")  # of development builds
TOKEN = "hvd-token-Zq7Xw3Lp"  # in the environment of horovodrun

# Every random number of libhorovod is this one, so that a test knows the keys made of them.
SECRET = b"HvdKeyR4"
KNOWN_RANDOM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t getrandom(void* to, size_t size, unsigned flags) {
    Dl_info caller;
    if (!dladdr(__builtin_return_address(0), &caller) || !strstr(caller.dli_fname, "libhorovod")) {
        return syscall(SYS_getrandom, to, size, flags);
    }
    for (size_t at = 0; at < size; ++at) ((char*)to)[at] = "HvdKeyR4"[at % 8];
    return (ssize_t)size;
}
"""
WORK = """
import time
import horovod.torch as hvd
import torch

hvd.init()
for step in range(10):
    assert hvd.allreduce(torch.ones(5), op=hvd.Sum, name="x")[0] == hvd.size()
print("ready", flush=True)
time.sleep(2)
hvd.barrier()
"""

pytest.importorskip("torch", reason="PyTorch is not installed")


def remembers(pid: int, word: bytes) -> bool:
    """Whether the process has it in its memory."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            area, rights, *_ = line.split()
            begin, end = (int(number, 16) for number in area.split("-"))
            if rights.startswith("rw") and end - begin < 1 << 28:
                memory.seek(begin)
                if word in memory.read(end - begin):
                    return True
    return False


def spellings(secret: bytes) -> list[bytes]:
    codes = (base64.b64encode(secret * 2)[:10], base64.b64encode(secret[1:] + secret)[:10])
    return [secret, secret.hex().encode(), secret.hex().upper().encode(), *codes]


def test_no_command_line_environment_or_log_has_a_secret(cluster, tmp_path):
    hosts = cluster(2)
    home = hosts.head.path("/root")
    (home / "work.py").write_text(WORK)
    source = tmp_path / "known.c"
    source.write_text(KNOWN_RANDOM)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", home / "libknown.so", source], check=True, timeout=60
    )
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    flags = ("--env", "LD_PRELOAD=/root/libknown.so", "--summary", "/root/summary.json")
    files = ("--output-filename", "/root/output")

    with hosts.start(
        *("-np", 3, "-H", "h1:1,h2:2", "--verbose", *flags, *files),
        *(sys.executable, "/root/work.py"),
        env={**passed, "API_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"},
    ) as job:
        job.wait_until(lambda: job.text["out"].count(b"ready\n") == 3, "three times ready")
        assert job.text["out"].count(b"ready\n") == 3, job.text
        keys = spellings(SECRET)
        (launcher,) = hosts.head.find("horovodrun")
        is_told = remembers(launcher.pid, SECRET * 2)  # or nothing is looked for here
        shown = showing(keys)
        token_in_commands = [one for one in table() if any(TOKEN in word for word in one.command)]
        token_of_others = [
            one.name
            for host in hosts.hosts[1:]
            for one in host.processes()
            if one.name in ("hvd-agent", "sshd") and TOKEN.encode() in one.environment()
        ]
        ended = job.end()

    assert ended.code == 0, ended.err
    assert is_told
    assert shown == []
    assert token_in_commands == []
    assert token_of_others == []
    words = [*keys, TOKEN.encode()]
    kept = [path for path in hosts.lab.files.folder.rglob("*") if path.is_file()]
    assert any(path.name == "log" for path in kept)
    logs = [path for path in kept if path.name not in ("libknown.so", "work.py")]
    assert [path for path in logs if any(word in path.read_bytes() for word in words)] == []
    assert not any(word in ended.out + ended.err for word in words)
