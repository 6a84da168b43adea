# SPDX-License-Identifier: Apache-2.0
"""The sentences that users read, as far as tests pin them: each stands here and in no other test.

A place in braces differs from one job to the next: `wording.STOPPED.format(ranks="0,2")`.
"""

from __future__ import annotations

import re

PREFIX = "horovodrun: "


def line(sentence: str, **values: object) -> str:
    """The line of horovodrun's standard error that says it."""
    return PREFIX + sentence.format(**values)


def pattern(sentence: str, **values: object) -> str:
    """A regular expression for it. Values are expressions too."""
    parts = re.split(r"\{(\w+)\}", sentence)
    return "".join(
        str(values[part]) if at % 2 else re.escape(part) for at, part in enumerate(parts)
    )


def beginning(sentence: str, **values: object) -> str:
    """It, up to the first place without a value."""
    return re.split(r"\{\w+\}", re.sub(r"\{(\w+)\}", lambda at: _put(at, values), sentence))[0]


def _put(at: re.Match[str], values: dict[str, object]) -> str:
    return str(values.get(at[1], at[0]))


def culprit(rank: int, **where: object) -> str:
    """The beginning of the first line of a report."""
    return beginning(CULPRIT, rank=rank, **where)


# ---- the report of a job that failed ----

CULPRIT = "culprit: rank {rank} (host {host}, local rank {local_rank}, pid {pid}): {why}"
OF_EXIT = "exit {code}"
OF_EXIT_FIRST = "exit {code}, first of {count}, {time} before the next"
OF_SIGNAL = "signal {name}"
OF_SIGKILL = "killed by SIGKILL from outside"
OF_EARLY_END = "while other ranks still waited"
OF_MEMORY = "out of memory: its cgroup's oom_kill rose by 1 (limit {limit})"
MEMORY_PEAK = ", peak {size}"
MEMORY_KERNEL = "; the kernel's log: Killed process {pid} ({name}) total-vm:{total}, anon-rss:{own}"
MEMORY_LEFT = (
    "; it had used {size}; left then: rank 1 {first} (1 process), rank 0 {second} (1 process)"
)
NEVER_IN_INIT = "has ended without a call of hvd.init(): exit 0"
LATE_IN_INIT = "has not called hvd.init() within {seconds} s (HOROVOD_START_TIMEOUT); it {does}"
SLEEPS = "sleeps"
IS_STOPPED = "is stopped by a signal"
STALLED = "stalled: {why}"
LAST_LINE = "| {text}"
REPORTED = "it reported: {why}"
SAME = "the same on ranks {ranks}"
ALSO_FAILED = "also failed: ranks {ranks}"
LOST_PEER = "lost a peer: ranks {ranks}"
STOPPED = "stopped: ranks {ranks}"
STARTED_BY = "started by: {command}"
ITS_END = "it ended with exit {code} (pid {pid})"
OTHER_SIZE = "of {size}, but horovodrun planned {ranks} ranks"
LEAVE_OUT_SIZES = "; leave numbers of ranks out of --mpi-args, and "
JSRUN_TASKS = "give --binding-args of jsrun as many tasks"
CAME_FROM_IT = "came from it: ranks {ranks}"
EXIT_TIMEOUT = "rank {rank} had ended, but not within --exit-timeout after it: ranks {ranks}"
MPIRUN_STAYS = "has not ended for 10 s after the last rank: ending it"
GPU_USE = "| horovod: GPU {index} ({name}, {uuid}): "
GPU_USE_BY = "{used} of {size} in use, pid {pid} (this rank) {mine}, pid {other} ("

# ---- what ranks learn of each other ----

PEER = "rank {rank} (pid {pid} on host {host}) "
HAS_DIED = "has died"
LOST_WITH_HOST = "is lost with its host: no word from it for {seconds} s (--lease)"
NO_ROUTE = "do not reach each other any more"
STALLED_FOR = "'{tensor}' for rank {rank}, which has not submitted it"
STALL = "stall: ranks {ranks} have waited for {seconds} s with " + STALLED_FOR
AVERAGE_DIFFERS = "what an average divides by"
CACHE_TOO_LARGE = "HOROVOD_CACHE_CAPACITY={value}: the agreement on {most} tensors is remembered"
LIVES_AND_IS_LATE = "a rank that lives has not called hvd.init"
NOT_COME = "these ranks have not come: {ranks}"

# ---- the Python package ----

WARMED_UP = "finished gradual learning rate warmup to {rate}"

RANKS_EXITED = "Horovod detected that one or more processes exited"
NO_RESULT = "rank {rank} ended without an exception or a result"
JOB_ENDED_WITH = "ended with {code}: {why}"

# ---- hosts that are lost ----

LOST_AGENT = "lost the agent on host {host}: {why}"
NO_WORD = "no word from it for {seconds} s (--lease)"
LOST_RANKS = "lost with their host: ranks {ranks}"
STREAM_CUT = "the connection ended before the last record of its stream"
AGENT_TOLD_TO_END = "the agent got SIGTERM from outside of its container: ending the job"
AGENT_ALONE = "has heard nothing of horovodrun for {seconds} s"
LEASE_RESTED = "horovodrun was stopped for longer than the lease, which rested meanwhile"
MAY_REMAIN = "processes may remain on host {host}"
NOT_SEARCHED = "did not answer within 1 s (ssh to root@{host}"

# ---- hosts whose agents do not come up ----

NO_ADDRESS = "does not resolve"
CORRECT_NAME = "; correct it, or add it to /etc/hosts"
NO_AGENT = "the agent on host "
NOT_WAITED_FOR = "not waited for: {hosts}"
SAME_HOSTS = "; the same: {hosts}"
ENDED_WITH = "status {code}: {text}"
STARTER_SAYS = "through {starter}, which says: {text}: the agent did not start"
NOTHING_CAME = "nothing came for "
PRINTED = "it printed: {text}"
NO_WORD_FROM = "no word within --start-timeout from {hosts}"

# ---- hosts over SSH ----

THROUGH_SSH = "reached through the system's ssh, because {why}"
OF_SETTING = "of {setting} in {file}, line {line}"
OF_OPEN_CONNECTION = "of a ControlPath"
OF_UNKNOWN_KEY = "of StrictHostKeyChecking {value}"
OF_KEY = "authentication as {user}: only ssh can use {key}"
OF_HOST_TRUST = "authentication as {user}: the host refused {key}, and only ssh"
KEY_REFUSED = "the host refused {key}"
KEY_FOR_SSH = "{key} (of a type for ssh alone)"
KEY_LOCKED = "{key} (needs a passphrase; no agent has it)"
HUNG_UP = "the host hung up after {keys} keys (Too many authentication failures)"
CHANGED_HOST_KEY = "is not the known one"
UNKNOWN_HOST_KEY = "its host key is not known"
RUN_ONCE = "run `{command}` once"
REFUSED_BY_HOST = "Connection refused; start sshd there"
NO_KEY_EXCHANGE = "port {port}: key exchange: {address}: no answer within {seconds} s; look whether"
NO_CONNECTION = "connecting: {address}: no answer within {seconds} s"
ONE_MACHINE = "{host} and {other} are one machine; write it once"
HOSTS_DIFFER = "hosts differ: {what}"
VERSIONS_DIFFER = "jax is 1.1 on h1, but 1.2 on h2, but 1.3 on h3"
SSH_AGENT_LINE = "libssh2 to {user}@{host} port {port}: "
SENDS_AGENT = ", else a line of sh brings it"
SHELL_LINE = "'(a line of sh, "
NO_FREE_PORT = "no port from {first} to {last} is free {where}; taken: "
PORTS_TAKEN = "; taken: {first}, {second}; give --port-range"
PORT_HOLDER = "{port} by pid {pid} of user {user}"
MORE_PORTS = " (HOROVOD_PORT_RANGE) more"
CANNOT_LISTEN = "HOROVOD_PORT_RANGE: cannot listen at port {port}"

# ---- data between hosts ----

CONNECTED = "connected over tcp "
BY_INTERFACE = "by {interface} {address}: {others}"
DATA_GOES = "data goes over tcp from {host} " + BY_INTERFACE
NO_INTERFACE = "HOROVOD_NETWORK_INTERFACES='{value}' allows none of this host's addresses"
NO_SHARED_MEMORY = "the ranks of {host} share no memory and use connections instead: "

# ---- horovodrun doctor ----

ONE_PAIR = "1 of 1 pair of hosts"
PAIRS = "{count} of {all} pairs of hosts"
GOOD_LINK = "round trip "
CANNOT_REACH = "{host} cannot reach {other}: "
NO_ANSWER = "({interface}): no answer within 3 s"

# ---- ranks that another launcher starts ----

BY_VARIABLES = "as the variables of {launcher} say"
OTHER_LAUNCHER = "HOROVOD_LAUNCHER names another launcher"
NO_VARIABLE = "{name} is not set"
NO_SIZE = "not of how many ranks"
MISSING_VARIABLE = "{name} is missing"
BAD_VARIABLE = "{name}={value}: "
OTHER_MPI = "of {size} by {launcher}, but rank 0 of 1 by {mpi}"
MPI_OF_ONE = "of {size} by {launcher}, but MPI_COMM_WORLD has one rank"
NO_PMIX = "libpmix.so.2 cannot be loaded, and MPI itself does not help"
NO_KEY_OF_TORCHRUN = "torchrun gives the ranks no key"
MUNGE_OR_KEY = "start munged on all hosts, or set HOROVOD_JOB_KEY_FILE"
NOT_A_SIZE = "{name}='{value}' must be a number from 1"
NOT_A_JOB = "{name}='{value}' is not"
NO_AGENT_FOR_IT = "has no agent for it"
MPI_NEEDS_ALL = "HOROVOD_CPU_OPERATIONS=mpi: MPI does not go on without ranks that have ended"
NO_MPI_OF_OURS = "HOROVOD_CPU_OPERATIONS=mpi: horovodrun started these ranks"

# ---- Slurm ----

SEE_WHETHER = "; see whether"
OVERLAPPING_STEP = "srun --jobid={job} --overlap --nodelist=NODE true"
NODE_CONNECTIONS = "connections from there to port 4000"
SRUN_SAYS_AGENT = "srun says: hvd-agent: {host} is waiting for {address}"

# ---- hosts that join ----

JOB_ENDED = "hvd-agent: the job has ended with exit code {code}"
OTHER_TOKEN_THERE = "horovodrun there has another token"
OTHER_TOKEN = "refused {address}: it has another token"
HAS_JOINED = "{host} has joined"
JOINED_ALREADY = "{host} has joined already from {first}, and does so again from {second}"
NOT_EXPECTED = "no host {host} is expected by -H"
LEFT_EARLY = "has left before the job began"
MISSING_HOSTS = "missing: {hosts}"
MISSING = "{count} of {all} hosts have joined; " + MISSING_HOSTS
SLOTS_JOINED = "{hosts} host with {slots} slots have joined, for {ranks} ranks"
NO_TOKEN_LINE = "no line came in time"
NO_HOROVODRUN = "no horovodrun is at the other end"
PORT_TAKEN = "; pid {pid} of user {user} ({command}) has it: take another port"
LAUNCHER_GONE = "horovodrun has gone"
IS_WAITING = "waiting"
COPY_OF = "with a copy of"
AT_ADDRESS = " at {address};"
MUST_BE_ADDRESS = "must be HOST:PORT"
NO_ADDRESS_HERE = "no address of this machine"
WAITS_FOR_NOBODY = "waits for nobody"
NO_USER_OR_PORT = "leave out user and port"
ADD_FLAG = "add {flag}"
JOIN_TAKES_NONE = "--join takes no command"
NOT_WITH_JOIN = "does not go with --join"
WRITABLE_TOKEN = "{file}: every user may write it"
SHORT_TOKEN = "needs 32"

# ---- signals ----

STOPPING = "stopping, Ctrl-C again to kill"
STOPPED_BY = "stopped by SIG{name}"
STOPPED_WHILE_JOINING = STOPPED_BY + " while waiting for hosts to join"
STOPPED_BY_SLURM = "stopped by Slurm's SIGTERM"
SENT_TO_STEP = "Slurm sent SIGUSR1 to all processes of the step"
ALLOCATION_ENDS = "the allocation ends at {time} (SLURM_JOB_END_TIME)"

# ---- output ----

OUTPUT_IS_IN = "what the ranks print, launcher.log, env.json and summary.json are in {folder}"
LOG_BEGINS = "process {pid} on {host} starts: {command}"
RANK_ENDED = "rank {rank} ended"
LOG_ENDS = "exit code {code} after {seconds} s"
WITHOUT_ARGUMENTS = "{program} (with {count} arguments)"
NO_FILE = "--output-filename: cannot write {file}: it is no regular file; remove it"
GOES_ON = "the job goes on without it"
CANNOT_KEEP = "--output-filename: cannot write {file}"
FILE_TOO_LARGE = "cannot write {file}: File too large; the rest of it is lost"
DISK_FULL = "No space left"
FILE_STUCK = (
    "--output-filename: waited too long for a file below {folder}; "
    "the rest of the output is lost there"
)
OUTPUT_LOST = "the ranks have succeeded, but some of their output was lost"
NOT_READ = "standard output is not being read"
NO_SUMMARY = "--summary: cannot write {file}: "
NO_TRACE = "--launch-trace: cannot write {file}: {why}"
START_TOOK = "the start took"
LAST_RANK = "start (last rank "
LAST_HOST = "preflight (last h"
SRUN_SAYS = "srun: {text}"
NO_MORE_OF_SRUN = "what else it says is not shown"
NO_INPUT_TERMINAL = (
    "--pty 0: horovodrun's standard input is no terminal; start it in a terminal, "
    "or write --stdin 0"
)
NO_OUTPUT_TERMINAL = "--pty 0: horovodrun's standard output is no terminal"
IN_BACKGROUND = "--pty 0: horovodrun is in the background of its terminal; start it without &"
NO_RANK_FILE = "no file of {count} of {size} ranks: {ranks}"
TIMELINE = "timeline: {text}"
NO_TRACES = "there is no rank-N.json in "
NO_FOLDER = "cannot read the folder "
NO_TRACE_FILE = "{file} is not the trace of a rank: there is no '['"
NO_FIRST_EVENT = "its first event names no rank, host and clock; take it out"
TWO_FILES = "rank {rank} has two files"
OTHER_JOBS = "the files are of different jobs"
NO_MERGED = "-o: cannot write {file}: No space left on device"
WALL_CLOCKS = "wall clocks"

# ---- command line, config file, host file, variables ----

USAGE = "Usage: horovodrun [flags] command [argument...]"
TRY_HELP = "\nTry 'horovodrun --help'.\n"
GLOO = "\nGloo: the native transport"
NO_NP = "say how many ranks to start: -np N"
NO_COMMAND = "there is no command"
MUST_BE = "{name}={value}: '{value}' must"
BEHIND_COMMAND = "{flag} stands behind the command '{command}'"
NOT_WHOLE = "{flag} {value}: must be a whole number from 1 to 1048576"
DID_YOU_MEAN = "did you mean {flag}?"
MORE_THAN_SLOTS = "-np {np} is more than the {slots} slots"
MORE_THAN_TASKS = "-np {np} is more than the {tasks} tasks of {job} ({hosts})"
NO_HOST_TO_OMIT = "no such host to leave out"
NOT_ELASTIC = "--min-np 1: elastic jobs are not part of"
JSRUN_OUTSIDE = "--jsrun starts ranks inside of an LSF job"
NOT_IN_LSF = "--jsrun: host {host} is not in {job} ({hosts})"
MPI_AND_JSRUN = "--mpi and --jsrun: each is a way to start the ranks"
JSRUN_INPUT = "jsrun cannot give standard input"
FOR_MPIRUN = "are for mpirun; add --mpi or --jsrun"
SLOTS_BAD = "{place}: slots={slots} must be from 1 to 65536"
HOST_BAD = "{place}: host '{host}'"
TWO_READ_INPUT = "-hostfile - and --stdin both read standard input; give the hosts in a file"
UNKNOWN_KEY = "{place}: unknown key '{key}' in '{section}'; did you mean '{near}'?"
NO_FACT = "{file}: {host}: the field '{field}' is missing"
DOCTOR_STARTS_NONE = "doctor starts no rank"
JSON_OF_DOCTOR = "--json is about what `horovodrun doctor` finds"
NO_CALLER = "HOROVOD_CALLER_FD={descriptor}: not the number of an open socket"
MPIRUN_ALONE = "mpirun ... horovodrun PROGRAM"
ALREADY_RANK = "already rank {rank} of {size} under {launcher}"
ALREADY_OF = "of {size} under {launcher}"
LEAVE_OUT_NP = "; leave -np, -H and -hostfile out"
NO_MPI = "install Open MPI or MPICH"
NOT_MPIRUN = "{program} --version says"
MPIRUN_SILENT = (
    "{program} --version does not answer within --start-timeout; name another program in "
    "HOROVOD_MPIRUN"
)

# ---- plans ----

PLAN_IS = "{ranks} ranks, native mode, on {hosts}"
CHILD = "a child of horovodrun"

# ---- programs that cannot be executed ----

CANNOT_EXECUTE = "cannot execute: {why}"
NOT_FOUND = "'{program}' was not found"
NOT_IN_PATH = NOT_FOUND + " in PATH"
INSTALL_IT = "install it there, or write a path that every host has"
HAS_PYTHON3 = "'python3' is there, write that"
IS_FOLDER = "'{program}' is a directory"
IS_DEAD_LINK = "'{program}' is a symbolic link to '{target}', which is not there"
NO_INTERPRETER = "'{program}' is there, but the program in its first line, '{first}', is not"
OF_WINDOWS = "its lines end in CR LF, as on Windows"
NO_PERMISSION = "'{program}' may not be executed; allow it with chmod +x {program}"
MOUNTED_NOEXEC = "'{program}' is on a file system that is mounted with noexec"

# ---- limits of a machine ----

SHARED_CPUS = (
    "{ranks} ranks on the {cpus} CPU of {host} will be slow: they share them, none is pinned"
)
RANKS_ON = "{ranks} ranks on the "
TOO_MANY_RANKS = "are more than 64 for each CPU"
HARD_LIMIT = "the hard limit of open files is {limit}, and its ranks may need {need}"
SOFT_LIMIT = "ranks may have only {limit} open files and may need {need}"
SMALL_STACKS = "stacks have only {size}"
FEW_PROCESSES = (
    "of the {limit} processes and threads that the user may have {left} are left, fewer than its "
    "{ranks} ranks; raise `ulimit -u` there (nproc in /etc/security/limits.conf), "
    "or start fewer ranks"
)
PROCESSES = "{limit} processes and threads"
RAISE_PROCESSES = "; raise `ulimit -u`"
INTERNAL_ERROR = "internal error"
FILES_OF_HOSTS = (
    "{count} hosts, {count} of them through {starter} with 4 each need {need} open files, and "
    "the limit is {limit}; raise the hard one"
)
TOO_MANY_FILES = "Too many open files"
SMALL_SHM = "/dev/shm has only {size}"

# ---- GPUs ----

MIG_SEES_ALL = "--gpu-bind index a rank sees all of the {count} GPUs and MIG devices"
MIG_SEES_ONE = "--gpus-per-rank {count}, but CUDA shows a process"
FEW_GPUS = "{ranks} ranks, but only {gpus} GPUs; start at most {gpus} there, or use --share-gpus"
FEW_GPUS_EACH = "{ranks} ranks with {each} GPUs each, but only {gpus} GPUs"
MIG_EMPTY = "GPU {index} ({uuid}) is in MIG mode and has no MIG device"
DOCTORS_GPUS = "2 GPUs and 2 MIG devices of 1 GPU (driver 580.65.06, CUDA 13.0, NCCL {version}, "
