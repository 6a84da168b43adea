# SPDX-License-Identifier: Apache-2.0
"""What the hosts find on disk: keys, /etc, homes; and the steps that make one host of it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

USERS = {"root": 0, "tester": 61234}
HIDDEN = ("/tmp", "/var/tmp", "/run", "/dev/shm", "/root", "/home")  # the machine's, in a host
MIB = 1 << 20

SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
HostKey /etc/ssh/ssh_host_ecdsa_key
AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
AcceptEnv LANG LC_*
PrintMotd no
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class HostOptions:
    """How one host differs from a good one."""

    shell: str = "/bin/bash"  # at login, of all users
    rc: str = ""  # its ~/.bashrc, in its own homes
    own_home: bool = False  # else one that all hosts share, as by NFS
    read_only_home: bool = False
    no_exec: bool = False  # no folder that a user may write allows programs
    python: bool = True
    full_disk: bool = False  # homes, /tmp, /var/tmp and /dev/shm have no byte left
    shm_bytes: int = 1024 * MIB
    sshd: bool = True
    sshd_config: str = ""  # lines before the usual ones, which they override

    @property
    def has_own_home(self) -> bool:
        return self.own_home or bool(self.rc)


def address(number: int) -> str:
    return f"10.77.{number // 250}.{number % 250 + 1}"


def address6(number: int) -> str:
    return f"fd77::{number:x}"


def names(number: int) -> list[str]:
    return [f"h{number}", f"h{number}.test"]


def make_keys(files: list[Path]) -> None:
    """Makes the private keys `files`, named ..._ed25519, ..._ecdsa or ..._rsa, all at once."""

    def command(file: Path) -> list[str]:
        kind = file.name.removesuffix("_key").rpartition("_")[2]
        return ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "lab", "-f", str(file)]

    makers = [subprocess.Popen(command(file), stdin=subprocess.DEVNULL) for file in files]
    assert all(maker.wait(60) == 0 for maker in makers), f"ssh-keygen failed for {files}"


def kept_paths() -> list[str]:
    """What hosts must see of the machine though it lies where they have something of their own."""
    checkout = Path(__file__).resolve().parents[3]
    interpreter = Path(os.path.realpath(sys.executable)).parents[1]
    wanted = {str(checkout), sys.prefix, sys.base_prefix, str(interpreter)}
    for name in ("HVD_BIN", "HVD_TEST_PREFIX"):
        if folder := os.environ.get(name):
            wanted.add(str(Path(folder).parent))
    inside = [
        path for path in sorted(wanted) if path.startswith(tuple(f"{top}/" for top in HIDDEN))
    ]
    return [path for path in inside if not any(path.startswith(f"{top}/") for top in inside)]


class LabFiles:
    """The folder of one lab."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.etc = folder / "etc"
        self.home = folder / "home"
        for path in (self.etc, self.home, folder / "no-python"):
            path.mkdir()
        folder.chmod(0o755)
        numbers = range(1, count + 1)
        (self.etc / "hosts").write_text(
            "127.0.0.1 localhost\n::1 localhost\n"
            + "".join(f"{address(number)} {' '.join(names(number))}\n" for number in numbers)
            + "".join(f"{address6(number)} h{number}-v6\n" for number in numbers)
        )
        (self.etc / "resolv.conf").write_text("# the hosts have no name server\n")
        self._accounts()
        self._keys(numbers)
        self.fill_home(self.home)

    def _accounts(self) -> None:
        user, number = "tester", USERS["tester"]
        shadow = Path("/etc/shadow").read_text()
        (self.etc / "group").write_text(Path("/etc/group").read_text() + f"{user}:x:{number}:\n")
        (self.etc / "shadow").write_text(f"{shadow}{user}:*:19000:0:99999:7:::\n")
        (self.etc / "shadow").chmod(0o600)

    def passwd(self, shell: str) -> Path:
        """/etc/passwd for hosts whose users have that login shell."""
        file = self.etc / f"passwd{shell.replace('/', '-')}"
        if not file.exists():
            lines = Path("/etc/passwd").read_text().splitlines()
            others = [line for line in lines if not line.startswith(("root:", "tester:"))]
            number = USERS["tester"]
            mine = [
                f"root:x:0:0:root:/root:{shell}",
                f"tester:x:{number}:{number}:tester:/home/tester:{shell}",
            ]
            file.write_text("\n".join([*mine, *others]) + "\n")
        return file

    def _keys(self, numbers: range) -> None:
        folders = {number: self.folder / f"h{number}" / "ssh" for number in numbers}
        for folder in folders.values():
            folder.mkdir(parents=True)
        host_keys = [
            folder / f"ssh_host_{kind}_key"
            for folder in folders.values()
            for kind in ("ed25519", "ecdsa")
        ]
        make_keys([*host_keys, self.folder / "id_ed25519"])
        self.authorized = (self.folder / "id_ed25519.pub").read_text()
        known = ""
        for number, folder in folders.items():
            aliases = [*names(number), f"h{number}-v6", address(number), address6(number)]
            for key in sorted(folder.glob("*.pub")):
                kind, blob = key.read_text().split()[:2]
                known += f"{','.join(aliases)} {kind} {blob}\n"
        for folder in folders.values():
            (folder / "ssh_known_hosts").write_text(known)
            (folder / "authorized_keys").write_text(self.authorized)
            (folder / "ssh_config").write_text("# as OpenSSH is without a word\n")

    def fill_home(self, top: Path, rc: str = "") -> None:
        """Homes of all users below `top`, with keys that every host accepts."""
        for user, number in USERS.items():
            ssh = top / user / ".ssh"
            ssh.mkdir(parents=True, mode=0o700)
            (top / user).chmod(0o755)
            for name in ("id_ed25519", "id_ed25519.pub"):
                (ssh / name).write_bytes((self.folder / name).read_bytes())
                (ssh / name).chmod(0o600)
            (ssh / "authorized_keys").write_text(self.authorized)
            if rc:
                (top / user / ".bashrc").write_text(rc)
            for path in (top / user, *(top / user).rglob("*")):
                os.chown(path, number, number)
        for path in kept_paths():  # the places where a host mounts them
            for base, inside in (("/root", top / "root"), ("/home", top)):
                if path.startswith(f"{base}/"):
                    (inside / path[len(base) + 1 :]).mkdir(parents=True, exist_ok=True)

    def write_steps(self, number: int, options: HostOptions) -> Path:
        """What test_host must do to make the host."""
        folder = self.folder / f"h{number}"
        (folder / "hostname").write_text(f"h{number}\n")
        (folder / "ssh/sshd_config").write_text(options.sshd_config + SSHD_CONFIG)
        top = self.home
        if options.has_own_home:
            top = folder / "home"
            top.mkdir()
            self.fill_home(top, options.rc)
        steps = [
            ["hostname", f"h{number}"],
            ["log", str(folder / "log")],
            ["mount", "devpts", "/dev/pts", "nosuid noexec", "newinstance,ptmxmode=0666,mode=0620"],
            *self._etc(folder, options),
            *([] if options.python else self._hide_python()),
            *homes(top, options),
            *scratch(options),
            *(["bind", path, path, "-"] for path in kept_paths()),
            ["address", f"{address(number)}/16"],
            ["address", f"{address6(number)}/64"],
        ]
        if options.sshd:
            sshd = "/usr/sbin/sshd"
            steps.append(["daemon", "22", sshd, "-D", "-e", "-f", "/etc/ssh/sshd_config"])
        file = folder / "steps"
        file.write_text("".join("\t".join(step) + "\n" for step in steps))
        return file

    def _etc(self, folder: Path, options: HostOptions) -> list[list[str]]:
        binds = {
            "passwd": self.passwd(options.shell),
            "hostname": folder / "hostname",
            "ssh": folder / "ssh",
        }
        binds |= {name: self.etc / name for name in ("hosts", "group", "shadow", "resolv.conf")}
        return [["bind", str(path), f"/etc/{name}", "-"] for name, path in binds.items()]

    def _hide_python(self) -> list[list[str]]:
        """Overlays in which no program is called python."""
        steps = []
        for place in ("/usr/bin", "/usr/local/bin"):
            layer = self.folder / "no-python" / place.replace("/", "-")
            found = [path.name for path in Path(place).glob("python*")]
            if found and not layer.exists():
                layer.mkdir()
                for name in found:  # a device 0, 0 is overlayfs' way to say that it is gone
                    os.mknod(layer / name, stat.S_IFCHR | 0o600, os.makedev(0, 0))
            if found:
                steps.append(["mount", "overlay", place, "-", f"lowerdir={layer}:{place}"])
        return steps


def homes(top: Path, options: HostOptions) -> list[list[str]]:
    if options.full_disk:  # their keys are in /etc/ssh
        return [["mount", "tmpfs", home, "-", "mode=755,size=4096"] for home in ("/home", "/root")]
    flags = [*(["ro"] if options.read_only_home else []), *(["noexec"] if options.no_exec else [])]
    word = " ".join(flags) or "-"
    return [["bind", str(top), "/home", word], ["bind", str(top / "root"), "/root", word]]


def scratch(options: HostOptions) -> list[list[str]]:
    """Folders for everybody, of the host alone."""
    word = "nosuid noexec" if options.no_exec else "nosuid"
    size = 4096 if options.full_disk else 256 * MIB
    shm = 4096 if options.full_disk else options.shm_bytes
    return [
        ["mount", "tmpfs", "/dev/shm", word, f"mode=1777,size={shm}"],
        ["mount", "tmpfs", "/tmp", word, f"mode=1777,size={size}"],
        ["mount", "tmpfs", "/var/tmp", word, f"mode=1777,size={size}"],
        ["mount", "tmpfs", "/run", word, "mode=755"],
        ["folder", "/run/sshd", "755"],
    ]
