# SPDX-License-Identifier: Apache-2.0
"""horovod.run: a function of this process in the ranks of a job, and their results."""

from __future__ import annotations

import codecs
import contextlib
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from horovod.runner import messages
from horovod.runner.errors import MPIRUN_FAILED, PROCESSES_EXITED, RankFailure, rank_error
from horovod.runner.flags import launcher_flags
from horovod.runner.job import Ended, Output, Result, start_job
from horovod.runner.rank_table import STATE_SECONDS, notebook_table

_USAGE = 2  # horovodrun's exit code for an argument that it does not take
_PREFIX = "horovodrun: "


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: int | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
    show: int | str | Sequence[int] | None = None,
) -> list[Any]:
    """Calls `func(*args, **kwargs)` in `num_proc` new Python processes, the ranks of a job, and
    returns what it returned in each, by rank.

    Without `num_proc` the job has as many ranks as the allocation of a batch system has slots, or
    as `hosts` say, else one. `executable` is the ranks' Python, whose version must be that of this
    one. The ranks' output appears as it comes, of all or of those in `show`; progress bars move for
    rank 0, or those in `show`. In a notebook, a table above shows the state of each rank. The other
    arguments are flags of horovodrun.

    The first exception of a rank ends the job and is raised as HorovodRankError, with the rank's
    traceback as its cause. An argument that horovodrun refuses is a ValueError, another end of the
    job a RuntimeError. Leaving by an exception, Ctrl-C for example, stops the ranks.
    """
    given = dict(locals())
    flags = {name: given[name] for name in given.keys() - {"func", "args", "kwargs", "executable"}}
    command = [launcher(), *launcher_flags(func, flags)]
    outcome = Outcome(sys.stdout, sys.stderr, MPIRUN_FAILED if use_mpi else PROCESSES_EXITED)
    table = notebook_table()
    call = messages.encode_call(func, args, kwargs, STATE_SECONDS if table else 0)
    with (
        contextlib.closing(table) if table else contextlib.nullcontext(),
        start_job(command, call, executable=executable or sys.executable) as job,
    ):
        for event in job.events():
            outcome.add(event)
            if table:
                table.add(event)
    return outcome.results()


def launcher() -> str:
    """horovodrun of this environment, else that in PATH."""
    own = Path(sysconfig.get_path("scripts")) / "horovodrun"
    found = str(own) if own.exists() else shutil.which("horovodrun")
    if found is None:
        raise FileNotFoundError(
            f"horovodrun is neither in {own.parent}, with this Python, nor in PATH: install "
            "horovod, or add the folder of horovodrun to PATH"
        )
    return found


class Outcome:
    """What a job did so far. Shows its output; `opening` begins the message of a failure."""

    def __init__(self, stdout: TextIO, stderr: TextIO, opening: str = PROCESSES_EXITED) -> None:
        self._opening = opening
        self._values: dict[int, Any] = {}
        self._failures: list[RankFailure] = []
        self.exit_code = 0
        self._printers = {"stdout": _Printer(stdout), "stderr": _Printer(stderr)}

    def add(self, event: object) -> None:
        if isinstance(event, Output):
            self._printers[event.stream].print(event.data)
        elif isinstance(event, Result):
            self._values[event.rank] = event.value
        elif isinstance(event, RankFailure):
            self._failures.append(event)
        elif isinstance(event, Ended):
            self.exit_code = event.exit_code

    def hide(self, line: re.Pattern[str]) -> None:
        """Does not print the lines of horovodrun that match."""
        self._printers["stderr"].hidden = line

    def said(self, line: re.Pattern[str]) -> str | None:
        """The first group of the first line of horovodrun that matches."""
        return self._printers["stderr"].find(line)

    def failures(self) -> Sequence[RankFailure]:
        """Exceptions of the function, the first one first."""
        return self._failures

    def has_ended_well(self) -> bool:
        return not self._failures and self.exit_code == 0

    def results(self) -> list[Any]:
        opening = self._opening
        if self._failures:
            raise rank_error(self._failures, opening)
        said = self._printers["stderr"].reason()
        if self.exit_code == _USAGE:
            raise ValueError(said)
        if self.exit_code != 0:
            raise RuntimeError(f"{opening}: horovodrun ended with {self.exit_code}: {said}")
        missing = sorted(set(range(max(self._values, default=0) + 1)) - self._values.keys())
        if missing:
            raise RuntimeError(
                f"{opening}: rank {missing[0]} ended without an exception or a result, as by "
                "os._exit(0)"
            )
        return [value for _, value in sorted(self._values.items())]


class _Printer:
    """Prints bytes as text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._line = ""  # as far as it has come
        self._own: list[str] = []  # the lines of horovodrun itself
        self.hidden: re.Pattern[str] | None = None

    def print(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        *lines, self._line = (self._line + text).split("\n")
        own = [line.removeprefix(_PREFIX) for line in lines if line.startswith(_PREFIX)]
        self._own += own
        if self.hidden is not None:
            hidden = [_PREFIX + line + "\n" for line in own if self.hidden.search(line)]
            for line in hidden:
                text = text.replace(line, "")
        self._stream.write(text)
        self._stream.flush()

    def find(self, line: re.Pattern[str]) -> str | None:
        found = (line.search(one) for one in self._own)
        return next((match[1] for match in found if match), None)

    def reason(self) -> str:
        """Why the job has failed, in the words of horovodrun."""
        culprits = [line for line in self._own if line.startswith("culprit: ")]
        return (culprits or self._own[-1:] or ["it said nothing"])[0]
