# SPDX-License-Identifier: Apache-2.0
"""The connection of a rank to its host's agent, through which functions and their results travel.

The agent's Unix socket has an abstract name, HOROVOD_AGENT_SOCKET, and takes connections of this
user's processes below the rank alone; collectives/launch_contract/agent_protocol.hpp describes its
messages. Here are those that read and write the keys of horovod.run.
"""

from __future__ import annotations

import io
import os
import socket
import struct
from collections.abc import Mapping

_VERSION = 5  # kAgentProtocolVersion
_HELLO, _PUT, _GET = 1, 2, 3
_WELCOME, _DONE, _VALUE, _FAILED = 129, 130, 131, 132
_LENGTH = struct.Struct("<I")
_VALUE_AT = 8  # in an answer, after the number of the request and the length of what follows
_CREDENTIALS = struct.Struct("iII")  # process, user, group
_PIECE = 1 << 20  # bytes
_CALL, _RESULT = "task/call/", "task/result"
_CONNECT_SECONDS = 30.0


class AgentError(RuntimeError):
    """There is no agent, or it refuses."""


class Agent:
    """A connection. One thread uses it."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment.get("HOROVOD_AGENT_SOCKET")
        if not name:
            raise AgentError(
                "HOROVOD_AGENT_SOCKET is not set: horovod.run starts this module, nobody else"
            )
        self._where = f"the agent at socket @{name}"
        self._requests = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._connect(name, environment)
        except (OSError, AgentError):
            self._socket.close()
            raise

    def _connect(self, name: str, environment: Mapping[str, str]) -> None:
        self._socket.settimeout(_CONNECT_SECONDS)
        self._socket.connect("\0" + name)
        packed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(packed)
        if user != os.geteuid():
            raise AgentError(f"{self._where} belongs to user {user}, not to {os.geteuid()}")
        job, rank = environment.get("HOROVOD_JOB_ID", ""), int(environment.get("HOROVOD_RANK", 0))
        hello = struct.pack("<H", _VERSION) + _text(job) + struct.pack("<i", rank)
        kind, body = self._ask(_HELLO, hello)
        if kind != _WELCOME:
            raise AgentError(f"{self._where}: {_reason(kind, body)}")
        # The caller may take results as slowly as it likes; the end of the job ends the wait.
        self._socket.settimeout(None)

    def get(self, key: str) -> bytes:
        """Waits until the value is there, or the job ends."""
        kind, body = self._request(_GET, _text(key))
        if kind != _VALUE:
            raise AgentError(f"{self._where}: {key}: {_reason(kind, body)}")
        return body[_VALUE_AT:]

    def put(self, key: str, value: bytes | memoryview) -> None:
        """Waits until the value was taken."""
        kind, body = self._request(_PUT, _text(key) + _LENGTH.pack(len(value)) + value)
        if kind != _DONE:
            raise AgentError(f"{self._where}: {key}: {_reason(kind, body)}")

    def _request(self, kind: int, body: bytes) -> tuple[int, bytes]:
        self._requests += 1
        return self._ask(kind, _LENGTH.pack(self._requests) + body)

    def _ask(self, kind: int, body: bytes) -> tuple[int, bytes]:
        self._socket.sendall(_LENGTH.pack(1 + len(body)) + bytes([kind]) + body)
        while True:
            (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
            answer = self._receive(length)
            if answer[0] in {_WELCOME, _DONE, _VALUE, _FAILED}:  # others tell of other ranks
                return answer[0], answer[1:]

    def _receive(self, size: int) -> bytes:
        content = bytearray(size)
        view = memoryview(content)
        done = 0
        while done < size:
            count = self._socket.recv_into(view[done:])
            if count == 0:
                raise AgentError(f"{self._where} closed the connection: the job has ended")
            done += count
        return bytes(content)

    def close(self) -> None:
        self._socket.close()


class AgentStream(io.RawIOBase):
    """The bytes that the caller of horovod.run sends, as a stream; writing sends bytes back."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent
        self._piece = memoryview(b"")
        self._next = 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """0 where nothing more comes, or nobody has called."""
        if not self._piece:
            self._piece = memoryview(self._agent.get(f"{_CALL}{self._next}"))
            self._next += 1
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        whole = memoryview(data)
        for begin in range(0, len(whole), _PIECE):
            self._agent.put(_RESULT, whole[begin : begin + _PIECE])
        return len(whole)

    def close(self) -> None:
        self._agent.close()
        super().close()


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _reason(kind: int, body: bytes) -> str:
    """Why it refused."""
    if kind != _FAILED:
        return f"it answered with a message of type {kind}"
    return body[_VALUE_AT:].decode(errors="replace")
