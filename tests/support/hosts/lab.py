# SPDX-License-Identifier: Apache-2.0
"""Brings hosts up and takes them down."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from .files import HostOptions, LabFiles
from .host import TIMEOUT, Host

TOOLS = ("ip", "nft", "ssh-keygen", "/usr/sbin/sshd")


def tool() -> Path:
    """The program test_host, of the build whose programs are tested."""
    checkout = Path(__file__).resolve().parents[3]
    build = Path(os.environ.get("HVD_BIN", checkout / "build/release/bin")).parent
    return build / "tests/test_host"


def why_not() -> str | None:
    """Why there can be no hosts here, or None."""
    if os.geteuid() != 0:
        return "simulated hosts need root"
    if missing := [name for name in TOOLS if shutil.which(name) is None]:
        return f"simulated hosts need the programs {', '.join(missing)}"
    kinds = ("--mount", "--uts", "--ipc", "--net", "--pid", "--fork")
    tried = subprocess.run(["unshare", *kinds, "true"], capture_output=True, text=True, timeout=20)
    if tried.returncode != 0:
        return f"simulated hosts need namespaces: {tried.stderr.strip()}"
    return None


def read_line(process: subprocess.Popen[bytes], what: str) -> str:
    line = process.stdout.readline().decode().strip()
    assert line and not line.startswith("failed"), f"{what}: {line or 'ended'}"
    return line


class Lab:
    """Hosts h1, h2, ... on one bridge. `options` says by number which of them are different."""

    def __init__(self, count: int, options: Mapping[int, HostOptions] | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="hvd-hosts-", dir="/tmp"))
        self._options = options or {}
        self._running: list[subprocess.Popen[bytes]] = []
        self._program = tool()
        assert self._program.is_file(), f"{self._program} is not built: ninja test_host"
        self.hosts: list[Host] = []
        try:
            self.files = LabFiles(self._folder, count)
            self._switch = self._start("switch")
            read_line(self._switch, "switch")
            self._up(range(1, count + 1))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def __getitem__(self, index: int) -> Host:
        return self.hosts[index]

    def close(self) -> None:
        for process in self._running:  # PID 1 of each dies with its parent, and takes all along
            process.kill()
        for process in self._running:
            process.wait(TIMEOUT)
            process.stdin.close()
            process.stdout.close()
        for host in self.hosts:
            host.wait_for(lambda host=host: not host.processes(), "its end")
        self._running.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def lose(self, host: Host, percent: float) -> None:
        """Drops so many of the packets that go to the host, and of those that come from it."""
        port = f"p{host.number}"
        rules = [
            f'add rule bridge lab loss {side} "{port}" numgen random mod 10000 < '
            f"{int(percent * 100)} drop\n"
            for side in ("iifname", "oifname")
        ]
        self._in_switch("nft", "-f", "-", text="flush chain bridge lab loss\n" + "".join(rules))

    def _start(self, *arguments: object) -> subprocess.Popen[bytes]:
        command = [str(self._program), *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._running.append(process)
        return process

    def _in_switch(self, *command: str, text: str) -> None:
        where = [str(self._program), "enter", str(self._switch.pid), "net", "0", "/"]
        subprocess.run([*where, *command], input=text, text=True, check=True, timeout=TIMEOUT)

    def _links(self, line: str) -> None:
        self._in_switch("ip", "-batch", "-", text=line + "\n")

    def _up(self, numbers: range) -> None:
        keepers = {}
        for number in numbers:
            options = self._options.get(number, HostOptions())
            keepers[number] = self._start("up", self.files.write_steps(number, options))
        lines = ["link add br0 type bridge", "link set br0 up"]
        for number, keeper in keepers.items():
            host = Host(number, self._program, keeper, self._links)
            host.folder = self._folder / host.name
            host.began(int(read_line(keeper, host.name).split()[1]))
            self.hosts.append(host)
            mac = f"02:4d:00:00:{number // 256:02x}:{number % 256:02x}"
            lines.append(
                f"link add p{number} type veth peer name eth0 address {mac} netns {keeper.pid}"
            )
            lines.append(f"link set p{number} master br0 up")
        self._links("\n".join(lines))
        self._in_switch(
            "nft",
            "-f",
            "-",
            text="table bridge lab {\n  chain loss {\n"
            "    type filter hook forward priority 0; policy accept;\n  }\n}\n",
        )
        for keeper in keepers.values():
            keeper.stdin.write(b"go\n")
            keeper.stdin.flush()
        for host in self.hosts:
            read_line(keepers[host.number], host.name)
            host.is_up()
            options = self._options.get(host.number, HostOptions())
            if options.full_disk:
                self._fill(host)

    @staticmethod
    def _fill(host: Host) -> None:
        script = 'for folder; do cat /dev/zero >"$folder/full"; done 2>/dev/null; true'
        host.run("sh", "-c", script, "sh", "/root", "/home", "/tmp", "/var/tmp", "/dev/shm")
