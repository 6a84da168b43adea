#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the functions that a program calls, in the order of their first calls, one name per line.

usage: startup_order.py [--optional] FILE PROGRAM [ARGUMENT...]

For a linker (lld's --symbol-ordering-file): what a start needs lies in few pages then. Processes
that PROGRAM forks are followed until they execute something else. PROGRAM runs with PATH alone of
the environment, and has to end with 0 within 60 s. It is static, and the machine Linux on x86-64.

--optional: a list that cannot be made is an empty FILE and a sentence; without it, exit code 1.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 60
BREAKPOINT = 0xCC  # int3

# linux/ptrace.h, sys/user.h and linux/wait.h
TRACEME, PEEKUSER, POKEUSER, CONT, KILL_FOLLOWED, DETACH, SETOPTIONS = (
    0,
    3,
    6,
    7,
    1 << 20,
    17,
    0x4200,
)
FOLLOW_FORK, FOLLOW_VFORK, FOLLOW_CLONE, STOP_AT_EXEC = 1 << 1, 1 << 2, 1 << 3, 1 << 4
EVENT_EXEC = 4
RIP = 16 * 8
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


class UnknownError(Exception):
    """Why there is no list."""


def ptrace(request: int, process: int, address: int = 0, data: int = 0) -> int:
    ctypes.set_errno(0)
    result = libc.ptrace(request, process, address, data)
    if error := ctypes.get_errno():
        raise OSError(error, f"ptrace request {request}: {os.strerror(error)}")
    return result


def functions_of(program: str) -> dict[int, str]:
    """Name by address."""
    listed = subprocess.run(
        ("readelf", "--syms", "--wide", program), check=True, capture_output=True, text=True
    )
    found: dict[int, str] = {}
    for line in listed.stdout.splitlines():
        match line.split():
            case [_, address, _, "FUNC" | "IFUNC", _, _, section, name] if section.isdigit():
                found.setdefault(int(address, 16), name)
    if not found:
        raise UnknownError(f"{program} has no symbols")
    return found


def start(command: list[str], output: int) -> int:
    process = os.fork()
    if process == 0:
        with contextlib.suppress(OSError):
            for stream in (1, 2):
                os.dup2(output, stream)
            ptrace(TRACEME, 0)
            os.execve(command[0], command, {"PATH": os.environ.get("PATH", os.defpath)})
        os._exit(127)
    _, status = os.waitpid(process, 0)
    if not os.WIFSTOPPED(status):
        raise UnknownError(f"{command[0]} could not be started and traced")
    return process


def out_of_time(*_: object) -> None:
    raise UnknownError(f"it did not end within {LIMIT_S} s")


class Trace:
    """Each function has a breakpoint, which is taken away when it is hit."""

    def __init__(self, process: int, functions: dict[int, str]) -> None:
        self.root = process
        self.functions = functions
        self.called: dict[int, None] = {}
        self.low = min(functions)
        ptrace(
            SETOPTIONS,
            process,
            data=FOLLOW_FORK | FOLLOW_VFORK | FOLLOW_CLONE | STOP_AT_EXEC | KILL_FOLLOWED,
        )
        with Path(f"/proc/{process}/mem").open("r+b", buffering=0) as memory:
            memory.seek(self.low)
            self.code = memory.read(max(functions) + 1 - self.low)
            patched = bytearray(self.code)
            for address in functions:
                patched[address - self.low] = BREAKPOINT
            memory.seek(self.low)
            memory.write(patched)
        ptrace(CONT, process)

    def follow(self) -> int:
        """Until nobody is left. The exit code of the first process."""
        code = -1
        signal.signal(signal.SIGALRM, out_of_time)
        signal.alarm(LIMIT_S)
        while True:
            try:
                process, status = os.waitpid(-1, WALL)
            except ChildProcessError:
                signal.alarm(0)
                return code
            if os.WIFSTOPPED(status):
                with contextlib.suppress(ProcessLookupError):  # killed meanwhile
                    self.stopped(process, status)
            elif process == self.root:
                code = os.waitstatus_to_exitcode(status)

    def stopped(self, process: int, status: int) -> None:
        received, event = os.WSTOPSIG(status), status >> 16
        if event == EVENT_EXEC:
            ptrace(DETACH, process)
            return
        if received == signal.SIGTRAP and not event and self.hit(process):
            received = 0
        # A process that is followed begins with SIGSTOP.
        ptrace(CONT, process, data=0 if event or received == signal.SIGSTOP else received)

    def hit(self, process: int) -> bool:
        address = ptrace(PEEKUSER, process, RIP) - 1
        if address not in self.functions:
            return False
        self.called.setdefault(address)
        with Path(f"/proc/{process}/mem").open("r+b", buffering=0) as memory:
            memory.seek(address)
            memory.write(self.code[address - self.low : address - self.low + 1])
        ptrace(POKEUSER, process, RIP, address)
        return True


def names_called(command: list[str]) -> list[str]:
    if platform.machine() != "x86_64":
        raise UnknownError(f"this machine is {platform.machine()}, not x86_64")
    with tempfile.TemporaryFile() as output:
        try:
            functions = functions_of(command[0])
            trace = Trace(start(command, output.fileno()), functions)
            code = trace.follow()
        except (OSError, subprocess.SubprocessError) as error:
            raise UnknownError(str(error)) from error
        if code != 0:
            output.seek(0)
            said = output.read().decode(errors="replace").strip()
            raise UnknownError(f"{' '.join(command)} ended with {code}: {said}")
    return [functions[address] for address in trace.called]


def main(arguments: list[str]) -> int:
    optional = arguments[:1] == ["--optional"]
    file, *command = arguments[optional:]
    try:
        names = names_called(command)
    except UnknownError as error:
        print(f"startup order: none for {command[0]}: {error}")
        if not optional:
            return 1
        names = []
    Path(file).write_text("".join(f"{name}\n" for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
