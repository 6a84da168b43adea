# SPDX-License-Identifier: Apache-2.0
"""The far end of horovod.runner.job, as horovodrun speaks it, without hosts and agents.

caller_protocol.py NP PYTHON -m horovod.runner.task: starts NP ranks, gives each the call, and sends
their outcomes in frames that take turns.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys

from horovod.runner import messages


def start_rank(rank: int, command: list[str], call: bytes) -> tuple[subprocess.Popen[bytes], bytes]:
    own, of_rank = socket.socketpair()
    number = str(of_rank.fileno())
    process = subprocess.Popen(
        command,
        env={**os.environ, "HOROVOD_RANK": str(rank), "HOROVOD_TASK_FD": number},
        pass_fds=[of_rank.fileno()],
    )
    of_rank.close()
    with own, own.makefile("rwb") as stream:
        messages.send(stream, call)
        return process, stream.read()


def main() -> int:
    size, *command = sys.argv[1:]
    print("started", flush=True)
    caller = socket.socket(fileno=int(os.environ["HOROVOD_CALLER_FD"]))
    call = messages.receive(caller.makefile("rb"))
    ranks = [start_rank(rank, command, call) for rank in range(int(size))]
    unsent = {rank: outcome for rank, (_, outcome) in enumerate(ranks)}
    while unsent:
        for rank, outcome in list(unsent.items()):
            frame, unsent[rank] = outcome[: 1 << 20], outcome[1 << 20 :]
            caller.sendall(struct.pack("<iI", rank, len(frame)) + frame)
            if not unsent[rank]:
                del unsent[rank]
    return max(process.wait() for process, _ in ranks)


sys.exit(main())
