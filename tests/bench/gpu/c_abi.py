# SPDX-License-Identifier: Apache-2.0
"""What collectives of GPU tensors cost by the C ABI, and whether they are right.

Runs on a machine with an NVIDIA GPU and PyTorch with CUDA, on the library that HOROVOD_LIBRARY
names, at one rank (NCCL moves nothing then: what is measured is our own part). Prints figures for
report.py. With --check-only under horovodrun: results alone, at any number of ranks.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
from networks import sizes_of_resnet50

from horovod.common.library import Request, Tensor

DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "UINT8",
    torch.int8: "INT8",
    torch.int16: "INT16",
    torch.int32: "INT32",
    torch.int64: "INT64",
    torch.float16: "FLOAT16",
    torch.bfloat16: "BFLOAT16",
    torch.float32: "FLOAT32",
    torch.float64: "FLOAT64",
}


class Horovod:
    """The C ABI, for tensors on the current GPU and its current stream."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["HOROVOD_LIBRARY"])
        for name in ("hvd_run_stream", "hvd_release", "hvd_result", "hvd_init", "hvd_shutdown"):
            getattr(self.library, name).restype = ctypes.c_int32
        self.library.hvd_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        self.check(self.library.hvd_init(None, ctypes.byref(self.context)))

    def check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(f"status {status}: {self.library.hvd_last_error().decode()}")

    def enum(self, name: str) -> int:
        return int(self.library.hvd_enum_value(f"HVD_{name}".encode()))

    def stop(self) -> None:
        self.check(self.library.hvd_shutdown(self.context))


class Call:
    """One call of hvd_run_stream, which can be made again and again."""

    def __init__(
        self,
        hvd: Horovod,
        op: str,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor] | None,
        reduce_op: str = "SUM",
        prescale: float = 1.0,
        postscale: float = 1.0,
    ) -> None:
        self.hvd = hvd
        self.keep: list[object] = [inputs, outputs]
        self.count = len(inputs)
        self.requests = (Request * self.count)()
        self.tickets = (ctypes.c_uint64 * self.count)()
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for index, tensor in enumerate(inputs):
            request = self.requests[index]
            request.struct_size = ctypes.sizeof(Request)
            request.name = f"tensor.{index}".encode()
            request.input = ctypes.pointer(self.describe(tensor))
            if outputs is not None:
                request.output = ctypes.pointer(self.describe(outputs[index]))
            request.prescale = prescale
            request.postscale = postscale
            request.op = hvd.enum(op)
            request.reduce_op = hvd.enum(reduce_op)

    def describe(self, tensor: torch.Tensor) -> Tensor:
        shape = (ctypes.c_int64 * tensor.dim())(*tensor.shape)
        self.keep.append(shape)
        return Tensor(
            struct_size=ctypes.sizeof(Tensor),
            data=tensor.data_ptr(),
            shape=shape,
            ndim=tensor.dim(),
            dtype=self.hvd.enum(DTYPES[tensor.dtype]),
            device_type=self.hvd.enum("CUDA"),
            device_index=tensor.device.index,
            stream=self.stream.value,
        )

    def run(self) -> None:
        library = self.hvd.library
        status = library.hvd_run_stream(
            self.hvd.context,
            self.requests,
            self.count,
            self.tickets,
            self.stream,
            ctypes.c_int64(60000),
        )
        self.hvd.check(status)
        for ticket in self.tickets:
            library.hvd_release(self.hvd.context, ctypes.c_uint64(ticket))

    def result(self) -> torch.Tensor:
        """Of one request without an output, which the library has made."""
        library = self.hvd.library
        status = library.hvd_run_stream(
            self.hvd.context, self.requests, 1, self.tickets, self.stream, ctypes.c_int64(60000)
        )
        self.hvd.check(status)
        made = Tensor(struct_size=ctypes.sizeof(Tensor))
        ticket = ctypes.c_uint64(self.tickets[0])
        self.hvd.check(library.hvd_result(self.hvd.context, ticket, ctypes.byref(made)))
        shape = tuple(made.shape[: made.ndim])
        copy = torch.empty(shape, dtype=torch.float32, device="cuda")
        memory = torch.as_tensor(_Floats(made.data, shape), device="cuda")
        copy.copy_(memory)
        torch.cuda.synchronize()
        library.hvd_release(self.hvd.context, ticket)
        return copy


class _Floats:
    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": "<f4",
            "version": 2,
        }


# ---- results ------------------------------------------------------------------------------------


def values_of(dtype: torch.dtype, count: int, rank: int) -> torch.Tensor:
    """Small whole numbers, so that every type holds every result."""
    whole = (torch.arange(count, device="cuda") * 7 + rank) % 3 + 1
    return (whole % 2 == 0) if dtype == torch.bool else whole.to(dtype)


def expected(dtype: torch.dtype, count: int, size: int, reduce_op: str) -> torch.Tensor:
    every = torch.stack([values_of(dtype, count, rank) for rank in range(size)])
    if dtype == torch.bool:
        return every.any(0) if reduce_op in {"SUM", "MAX"} else every.all(0)
    wide = every.to(torch.float64)
    reduced = {
        "SUM": lambda: wide.sum(0),
        "AVERAGE": lambda: wide.sum(0) / size,
        "MIN": lambda: wide.amin(0),
        "MAX": lambda: wide.amax(0),
        "PRODUCT": lambda: wide.prod(0),
    }[reduce_op]()
    return (reduced if dtype.is_floating_point else reduced.trunc()).to(dtype)


def check_results(hvd: Horovod, rank: int, size: int) -> int:
    """How many results were right; prints those that were not."""
    checked = 0
    wrongs: list[str] = []

    def compare(what: str, got: torch.Tensor, wanted: torch.Tensor) -> None:
        nonlocal checked
        torch.cuda.synchronize()
        tolerance = 1e-2 if got.dtype in {torch.float16, torch.bfloat16} else 1e-6
        same = torch.allclose(got.double(), wanted.double(), rtol=tolerance, atol=0)
        if not same:
            wrong = (got != wanted).flatten().nonzero().flatten()
            first = int(wrong[0])
            wrongs.append(
                f"rank {rank}: {what}: {len(wrong)} of {got.numel()} are wrong, the first at "
                f"{first}: "
                f"{got.flatten()[first]} instead of {wanted.flatten()[first]}"
            )
        checked += 1

    for dtype in DTYPES:
        for reduce_op in ("SUM", "AVERAGE", "MIN", "MAX", "PRODUCT"):
            if dtype == torch.bool and reduce_op == "AVERAGE":
                continue
            for count in (1, 7, 1000, 65537):
                mine = values_of(dtype, count, rank)
                out = torch.zeros_like(mine)
                wanted = expected(dtype, count, size, reduce_op)
                Call(hvd, "ALLREDUCE", [mine], [out], reduce_op).run()
                compare(f"allreduce {dtype} {reduce_op} {count}", out, wanted)
            many = [values_of(dtype, count, rank) for count in (1, 3, 1000, 5, 4099, 16)]
            outs = [torch.zeros_like(one) for one in many]
            Call(hvd, "ALLREDUCE", many, outs, reduce_op).run()
            for one in outs:
                compare(
                    f"fused {dtype} {reduce_op}", one, expected(dtype, len(one), size, reduce_op)
                )
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        mine = values_of(dtype, 5000, rank)
        out = torch.zeros_like(mine)
        Call(hvd, "ALLREDUCE", [mine], [out], "SUM", prescale=2.0, postscale=0.25).run()
        compare(f"scaled {dtype}", out, expected(dtype, 5000, size, "SUM") * 0.5)
    rows = values_of(torch.float32, 12 * size, rank).view(-1, 3)
    part = torch.zeros(4, 3, device="cuda")
    Call(hvd, "REDUCESCATTER", [rows], [part]).run()
    whole = expected(torch.float32, 12 * size, size, "SUM").view(-1, 3)
    compare("reducescatter", part, whole[4 * rank : 4 * rank + 4])
    mine = values_of(torch.float32, 10, rank)
    every = [values_of(torch.float32, 10, one) for one in range(size)]
    compare("allgather", Call(hvd, "ALLGATHER", [mine], None).result(), torch.cat(every))
    mine = values_of(torch.float32, 4 * size, rank)
    every = [
        values_of(torch.float32, 4 * size, one)[4 * rank : 4 * rank + 4] for one in range(size)
    ]
    compare("alltoall", Call(hvd, "ALLTOALL", [mine], None).result(), torch.cat(every))
    mine = values_of(torch.float32, 1000, rank)
    Call(hvd, "BROADCAST", [mine], [mine]).run()
    compare("broadcast", mine, values_of(torch.float32, 1000, 0))
    for wrong in wrongs:
        print(wrong, flush=True)
    if wrongs:
        print(f"{len(wrongs)} of {checked} results are WRONG", flush=True)
    return checked - len(wrongs)


def discard(_value: object) -> None:
    """So that a lambda returns nothing."""


# ---- times --------------------------------------------------------------------------------------


def seconds(action: Callable[[], None], repeat: int) -> float:
    """Of one action with the host waiting for the GPU after it: the median."""
    taken = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        action()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def in_turn(one: Callable[[], None], other: Callable[[], None], repeat: int) -> tuple[float, float]:
    """Two actions by turns, in rounds, so that both see the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(9):
        times[0].append(seconds(one, repeat))
        times[1].append(seconds(other, repeat))
    return statistics.median(times[0]), statistics.median(times[1])


def measure(hvd: Horovod, machine: str) -> None:
    def row(key: str, value: str) -> None:
        print(f"ROW {key} | {value} | {machine}", flush=True)

    gradients = [torch.ones(size, device="cuda") for size in sizes_of_resnet50()]
    total = sum(one.numel() for one in gradients)
    moved = 4 * 2 * 2 * total  # bytes: read and written, in and out
    call = Call(hvd, "ALLREDUCE", gradients, gradients)
    whole, copy = torch.ones(total, device="cuda"), torch.empty(total, device="cuda")

    def copy_twice() -> None:
        copy.copy_(whole)
        whole.copy_(copy)

    ours, theirs = in_turn(call.run, copy_twice, 20)
    kernels = seconds_in_kernels(call.run)
    rates = f"({moved / kernels / 1e9:.0f} and {moved / theirs / 1e9:.0f} GB/s)"
    row("bandwidth", f"{100 * theirs / kernels:.0f} % {rates}")
    row("abi_161", f"{1e6 * ours:.0f} us, of which kernels {1e6 * kernels:.0f} us")

    small = [torch.ones(256, device="cuda") for _ in range(10000)]
    one = torch.ones(1, device="cuda")
    call = Call(hvd, "ALLREDUCE", small, small)
    ours, theirs = in_turn(call.run, lambda: discard(one.add_(1)), 20)
    kernels = seconds_in_kernels(call.run)
    row("launches", f"{kernels / theirs:.1f} ({1e6 * kernels:.0f} and {1e6 * theirs:.1f} us)")
    row("abi_many", f"{1e3 * ours:.1f} ms")


def seconds_in_kernels(action: Callable[[], None]) -> float:
    """What the kernels that pack and unpack take of one action."""
    repeat = 10
    action()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(repeat):
            action()
        torch.cuda.synchronize()
    own = [event for event in profile.events() if event.name.startswith("hvd_")]
    return sum(event.device_time for event in own) / repeat / 1e6


def describe_machine() -> str:
    version = ".".join(str(part) for part in torch.cuda.nccl.version())
    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}, NCCL {version}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check-only", action="store_true", help="results, and no times")
    options = parser.parse_args()
    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    size = int(os.environ.get("HOROVOD_SIZE", "1"))
    torch.cuda.set_device(0)
    hvd = Horovod()
    way = os.environ.get("HOROVOD_GPU_OPERATIONS", "nccl")
    checked = check_results(hvd, rank, size)
    if rank == 0:
        machine = describe_machine()
        print(f"ROW right_{size}_{way} | {checked} | {machine}", flush=True)
        print(f"{checked} results at {size} rank(s) by {way} are right\n", flush=True)
    if not options.check_only:
        measure(hvd, describe_machine())
    hvd.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
