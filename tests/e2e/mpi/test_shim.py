# SPDX-License-Identifier: Apache-2.0
"""The shim before a rank's command, with this test as the agent that it asks."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import wording


def text(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


@dataclass
class Agent:
    """Of one rank of a job of four."""

    program: Path
    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    rank: int = 2

    def __post_init__(self) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(f"\0horovod-{self.job}-1-shim")
        self.listener.listen()
        self.listener.settimeout(20)

    def start(
        self, *command: str | Path, pass_fds: tuple[int, ...] = (), **env: str
    ) -> subprocess.Popen[bytes]:
        variables = {
            "PATH": os.environ["PATH"],
            "PMI_RANK": str(self.rank),
            "PMI_SIZE": "4",
            "HOROVOD_MPI_JOB": f"{self.job};fe80::1:2;node2:2",
            **env,
        }
        line = [self.program, "exec", "--", *command]
        self.process = subprocess.Popen(
            line,
            env=variables,
            pass_fds=pass_fds,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self.process

    def take_claim(self) -> socket.socket:
        shim, _ = self.listener.accept()
        shim.settimeout(20)
        (size,) = struct.unpack("<I", shim.recv(4, socket.MSG_WAITALL))
        body = shim.recv(size, socket.MSG_WAITALL)
        who = struct.pack("<iiiiII", self.rank, 4, self.process.pid, os.getpid(), 0, 1)
        assert body.endswith(text(self.job.encode()) + who)
        return shim

    def order(
        self,
        shim: socket.socket,
        env: dict[str, str] | None = None,
        cpus: tuple[int, ...] = (),
        refusal: str = "",
        fds: tuple[int, ...] = (),
        clean: bool = False,
    ) -> None:
        entries = [f"{name}={value}\0".encode() for name, value in (env or {}).items()]
        body = text(refusal.encode()) + struct.pack("<I", len(entries))
        body += b"".join(text(entry) for entry in entries)
        body += struct.pack(f"<II{len(cpus)}i", clean, len(cpus), *cpus)
        frame = text(body)
        sent = socket.send_fds(shim, [frame[:100]], fds)
        if frame[sent:]:
            shim.sendall(frame[sent:])

    def failure(self, shim: socket.socket) -> tuple[str, int, str]:
        """The step, the number of the error, and why the command was not executed."""
        (size,) = struct.unpack("<I", shim.recv(4, socket.MSG_WAITALL))
        body = shim.recv(size, socket.MSG_WAITALL)
        (length,) = struct.unpack_from("<I", body)
        (error_number,) = struct.unpack_from("<i", body, 4 + length)
        return body[4 : 4 + length].decode(), error_number, body[12 + length :].decode()


@pytest.fixture
def agent(agent_program: Path) -> Iterator[Agent]:
    one = Agent(agent_program)
    yield one
    one.listener.close()


def test_a_rank_has_what_the_agent_ordered(agent: Agent) -> None:
    """Variables over those that were there, CPUs, streams; and it dies with its parent."""
    script = (
        "import ctypes, os; signal = ctypes.c_int();"
        "ctypes.CDLL(None).prctl(2, ctypes.byref(signal));"
        "print([os.environ.get(name) for name in ('KEPT', 'CHANGED', 'NEW', 'PMI_RANK')],"
        " sorted(os.sched_getaffinity(0)), signal.value,"
        " sorted(map(int, os.listdir('/proc/self/fd'))))"
    )
    cpu = max(os.sched_getaffinity(0))
    reading, writing = os.pipe()
    long = {f"LONG_{number}": "x" * 1000 for number in range(300)}

    with agent.start(sys.executable, "-c", script, KEPT="1", CHANGED="old") as process:
        shim = agent.take_claim()
        agent.order(
            shim, {"CHANGED": "new", "NEW": "=", **long}, cpus=(cpu,), fds=(writing, writing)
        )
        os.close(writing)
        assert shim.recv(1) == b""  # closed by execve
        said = os.read(reading, 4096).decode().strip()
    os.close(reading)

    assert said == f"['1', 'new', '=', '2'] [{cpu}] 9 [0, 1, 2, 3]"
    assert process.returncode == 0


def test_of_a_clean_environment_only_what_is_of_mpi_goes_on(agent: Agent) -> None:
    with agent.start("/usr/bin/env", KEPT="1", OMPI_MCA_x="2") as process:
        agent.order(agent.take_claim(), {"NEW": "3"}, clean=True)
        out, _ = process.communicate(timeout=20)

    record = b"HOROVOD_LAUNCHER_VARIABLES=PMI_RANK=2;PMI_SIZE=4"
    kept = [b"NEW=3", b"OMPI_MCA_x=2", b"PMI_RANK=2", b"PMI_SIZE=4"]
    assert sorted(out.split()) == [record, *kept]


def test_a_descriptor_that_was_given_stays_open(agent: Agent) -> None:
    """As PMI_FD must."""
    reading, writing = os.pipe()
    with agent.start(
        "sh", "-c", f"echo here >/proc/self/fd/{writing}", pass_fds=(writing,)
    ) as process:
        agent.order(agent.take_claim())
        os.close(writing)
        said = os.read(reading, 100)
    os.close(reading)

    assert process.returncode == 0
    assert said == b"here\n"


@pytest.mark.parametrize(
    ("mode", "content", "code", "error_number"),
    [(0o755, "echo ran $1", 0, 0), (0o644, "", 126, 13), (None, "", 127, 2)],
    ids=["a script without #!", "not executable", "not there"],
)
@pytest.mark.parametrize("is_path", [True, False])
def test_a_command_is_found_as_a_shell_finds_it(
    agent: Agent,
    tmp_path: Path,
    mode: int | None,
    content: str,
    code: int,
    error_number: int,
    is_path: bool,
) -> None:
    program = tmp_path / "program"
    if mode is not None:
        program.write_text(content)
        program.chmod(mode)
    name = str(program) if is_path else "program"

    with agent.start(name, "well") as process:
        shim = agent.take_claim()
        agent.order(shim, {"PATH": f"/nowhere:{tmp_path}:/bin"})
        failure = agent.failure(shim) if code else None
        out, err = process.communicate(timeout=20)

    assert process.returncode == code, err
    if code == 0:
        assert failure is None
    else:
        step, number, why = failure
        assert (step, number) == (f"execve {name}", error_number)
        assert name in why
    assert out == (b"ran well\n" if code == 0 else b"")


def test_a_refusal_is_said(agent: Agent) -> None:
    with agent.start("true") as process:
        agent.order(agent.take_claim(), refusal="rank 2 has no place")
        _, err = process.communicate(timeout=20)

    assert process.returncode == 125
    assert err == b"horovodrun: rank 2 has no place\n"


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"PMI_SIZE": "x"}, wording.NOT_A_SIZE.format(name="PMI_SIZE", value="x")),
        ({"PMI_SIZE": "3"}, "rank 2 " + wording.OTHER_SIZE.format(size=3, ranks=4)),
        ({"HOROVOD_MPI_JOB": "j;"}, wording.NOT_A_JOB.format(name="HOROVOD_MPI_JOB", value="j;")),
        ({"HOROVOD_MPI_JOB": "nobodys;node1:4"}, wording.NO_AGENT_FOR_IT),
    ],
)
def test_what_is_wrong_before_the_claim_is_said(
    agent: Agent, env: dict[str, str], sentence: str
) -> None:
    with agent.start("true", **env) as process:
        _, err = process.communicate(timeout=20)

    assert process.returncode in (2, 125)
    assert sentence in err.decode()
