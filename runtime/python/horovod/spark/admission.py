# SPDX-License-Identifier: Apache-2.0
"""How tasks of a barrier stage get the token with which their host joins the job.

The token is a secret of the driver and of the hosts' agents. What Spark stores or shows (closures,
broadcast files, event logs, settings) must not give it away, so that it travels by itself:

    driver, in the tasks' closure    Ticket: address, admission key A (random, for this stage alone)
    task      partition, slots, X    X: public key, made for this connection; HMAC of all with A
    driver    Y, sealed token        ChaCha20-Poly1305 with HKDF(X25519 of x and y, A, X, Y)

A alone decrypts nothing, not even recorded traffic, because x and y are forgotten (X25519). A is
worth something only as long as the driver admits: each partition once, until the slots of those
that came are as many as ranks. One claim too many ends the job: it comes from a stage that Spark
has started again, or from another program that has read the closure meanwhile, and such a program
has the rights of a user of this Spark application, who can run anything in its tasks anyway.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_MAGIC = b"hvds"
_CLAIM = struct.Struct("<4sII32s")  # magic, partition, slots, public key
_MAC_SIZE = 32
_KEY_SIZE = 32
_NONCE = bytes(12)  # each key seals one message
_ADMITTED, _REFUSED = b"\1", b"\0"
_LONGEST_ANSWER = 1024
_SECONDS = 10.0  # for one exchange


class AdmissionError(RuntimeError):
    """The driver does not let this task into the job."""


@dataclass(frozen=True)
class Ticket:
    """Travels in the closure of the tasks."""

    host: str  # of the driver
    port: int
    key: bytes = field(repr=False)

    def redeem(self, partition: int, slots: int) -> str:
        """The token. In a task; raises AdmissionError or OSError."""
        own = X25519PrivateKey.generate()
        claim = _CLAIM.pack(_MAGIC, partition, slots, own.public_key().public_bytes_raw())
        with socket.create_connection((self.host, self.port), timeout=_SECONDS) as connection:
            connection.sendall(claim + hmac.digest(self.key, claim, "sha256"))
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as stream:
                answer = stream.read(_LONGEST_ANSWER)
        if answer[:1] != _ADMITTED:
            raise AdmissionError(answer[1:].decode(errors="replace") or "the driver has no answer")
        peer, sealed = answer[1 : 1 + _KEY_SIZE], answer[1 + _KEY_SIZE :]
        key = _session_key(self.key, own, peer, claim + peer)
        try:
            return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, claim).decode()
        except InvalidTag:
            raise AdmissionError("the answer does not come from the driver") from None


class Admission:
    """The driver's side: a listening socket and its threads. `on_restart` is called, in one of
    them, when a partition comes again."""

    def __init__(
        self, host: str, bind: str, token: str, size: int, on_restart: Callable[[], None]
    ) -> None:
        self._key = secrets.token_bytes(_KEY_SIZE)
        self._token = token
        self._free = size
        self._admitted: set[int] = set()
        self._on_restart = on_restart
        self._lock = threading.Lock()
        self._server = _Server((bind, 0), self)
        self.ticket = Ticket(host, self._server.server_address[1], self._key)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, message: bytes) -> bytes:
        claim, mac = message[: _CLAIM.size], message[_CLAIM.size :]
        if len(mac) != _MAC_SIZE or not hmac.compare_digest(
            mac, hmac.digest(self._key, claim, "sha256")
        ):
            return _REFUSED + b"this is no task of the stage"
        _, partition, slots, peer = _CLAIM.unpack(claim)
        reason = self._admit(partition, slots)
        if reason:
            return _REFUSED + reason.encode()
        own = X25519PrivateKey.generate()
        public = own.public_key().public_bytes_raw()
        key = _session_key(self._key, own, peer, claim + public)
        return (
            _ADMITTED + public + ChaCha20Poly1305(key).encrypt(_NONCE, self._token.encode(), claim)
        )

    def _admit(self, partition: int, slots: int) -> str:
        """Why not, or nothing."""
        with self._lock:
            if partition not in self._admitted and slots <= self._free:
                self._admitted.add(partition)
                self._free -= slots
                return ""
        self._on_restart()
        return (
            "Spark has started the stage again, and the job does not begin twice: "
            "its function may have run"
        )


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], admission: Admission) -> None:
        self.admission = admission
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Exchange)

    def handle_error(self, request: object, client_address: object) -> None:
        """A peer that has gone, or is too slow: it knows."""


class _Exchange(socketserver.StreamRequestHandler):
    server: _Server
    timeout = _SECONDS

    def handle(self) -> None:
        message = self.rfile.read(_CLAIM.size + _MAC_SIZE)
        self.wfile.write(self.server.admission.answer(message))


def _session_key(admission: bytes, own: X25519PrivateKey, peer: bytes, said: bytes) -> bytes:
    shared = own.exchange(X25519PublicKey.from_public_bytes(peer))
    return HKDF(SHA256(), _KEY_SIZE, admission, b"horovod.spark join token" + said).derive(shared)
