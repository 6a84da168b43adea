# SPDX-License-Identifier: Apache-2.0
"""What horovod.torch asks of the library for tensors of a GPU, with tensors that say that they are
on one, and a library that writes down the calls and answers them."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

import cases
import torch
from cases import case, raises, run

import horovod.torch as hvd
from horovod.common import operations
from horovod.common.library import Request, library
from horovod.torch import gpu, gradient_queue, gradient_slot, submission

STREAM = 0x5EED
calls: list[tuple[object, ...]] = []
kept: list[int] = []
wires: list[int] = []


class OnGpu(torch.Tensor):
    """Memory of the host that says that it is the GPU's with the number 1."""

    is_cpu = False
    device = torch.device("cuda", 1)

    def get_device(self) -> int:
        return 1

    def record_stream(self, stream: object) -> None:
        kept.append(self.data_ptr())


def on_gpu(*shape: int) -> OnGpu:
    return torch.ones(shape).as_subclass(OnGpu)


def hvd_submit(_: int, requests: object, count: int, tickets: object) -> int:
    at = requests if isinstance(requests, int) else ctypes.addressof(requests)
    for request in (Request * count).from_address(at):
        tensor = request.input.contents
        place = (tensor.device_type, tensor.device_index, tensor.stream)
        calls.append(("submit", request.name.decode(), tensor.data, *place))
        wires.append(request.wire_dtype)
    for number in range(count):
        tickets[number] = 100 + number
    return operations.OK


def answer(name: str, status: list[int]) -> object:
    def function(*arguments: object) -> int:
        calls.append((name, *arguments[1:]))
        return status[0]

    return function


health = [operations.OK]
waited = [operations.OK]


def hvd_wait_all_stream(_: int, tickets: object, count: int, stream: int, limit: int) -> int:
    calls.append(("wait_all_stream", list(tickets), stream))
    return waited[0]


def hvd_run_stream(
    world: int, requests: object, count: int, tickets: object, stream: int, limit: int
) -> int:
    calls.append(("run_stream", stream))
    hvd_submit(world, requests, count, tickets)
    return operations.OK


def hvd_release_all(_: int, tickets: object, count: int) -> int:
    calls.append(("release", list(tickets)))
    return operations.OK


class Stream:
    def __init__(self, handle: int, device: object = None) -> None:
        self.cuda_stream = handle

    def wait_stream(self, other: Stream) -> None:
        calls.append(("stream_waits", self.cuda_stream, other.cuda_stream))


@contextlib.contextmanager
def on_another_stream() -> Iterator[None]:
    before, gpu.current_stream = gpu.current_stream, lambda index: STREAM + 1
    try:
        yield
    finally:
        gpu.current_stream = before


def wire() -> None:
    library.hvd_submit = hvd_submit
    library.hvd_run_stream = hvd_run_stream
    library.hvd_wait_all_stream = hvd_wait_all_stream
    library.hvd_wait_stream = answer("wait_stream", waited)
    library.hvd_wait = answer("wait", [operations.OK])
    library.hvd_health = answer("health", health)
    library.hvd_release_all = hvd_release_all
    library.hvd_poll = answer("poll", [operations.OK])
    submission._DEVICES = ("cpu", "cuda")
    torch.cuda.current_stream = lambda index: Stream(gpu.current_stream(index))
    torch.cuda.ExternalStream = Stream
    gpu.current_stream = lambda index: STREAM


def names_of_calls() -> list[object]:
    return [call[0] for call in calls]


@case
def a_request_carries_device_and_stream() -> None:
    tensor = on_gpu(3)
    handle = hvd.allreduce_async_(tensor, name="one")

    assert calls == [("submit", "allreduce.one", tensor.data_ptr(), gpu.CUDA, 1, STREAM)], calls
    assert hvd.synchronize(handle) is tensor
    assert calls[1:] == [("wait_all_stream", [100], STREAM), ("release", [100])], calls
    assert not kept


@case
def memory_belongs_to_another_stream_that_waits_for_it_too() -> None:
    tensor = on_gpu(3)
    handle = hvd.allreduce_async_(tensor, name="one")
    with on_another_stream():
        hvd.synchronize(handle)

    assert calls[1] == ("wait_all_stream", [100], STREAM + 1), calls
    assert set(kept) == {tensor.data_ptr()}


@case
def a_blocking_call_never_waits_on_the_host() -> None:
    hvd.grouped_allreduce_([on_gpu(2), on_gpu(4)], name="group")

    assert calls[0] == ("run_stream", STREAM), calls
    assert names_of_calls()[1:] == [*["submit"] * 2, "release"], calls


@case
def tensors_of_host_and_gpu_are_each_awaited_where_they_are() -> None:
    hvd.broadcast_parameters([("a", on_gpu(2)), ("b", torch.ones(3))], 0)

    assert [call[3:] for call in calls[:2]] == [(gpu.CUDA, 1, STREAM), (0, 0, None)], calls
    assert names_of_calls()[2:] == ["wait_stream", "wait", "release"], calls


def step_of_two(waits_elsewhere: bool = False) -> gradient_queue.GradientQueue:
    queue = gradient_queue.GradientQueue(1)
    reduction = gradient_slot.Reduction(
        hvd.Sum, 1.0, 1.0, hvd.Compression.none, False, hvd.global_process_set
    )
    for count in (2, 3):
        parameter = torch.nn.Parameter(on_gpu(count))
        slot = gradient_slot.GradientSlot(f"p{count}", parameter, reduction)
        queue.slots[id(parameter)] = slot
        queue.submit(slot)
    with on_another_stream() if waits_elsewhere else contextlib.nullcontext():
        queue.finish()
    return queue


@case
def gradients_are_awaited_by_the_stream_in_one_call() -> None:
    step_of_two()

    assert [call[3:] for call in calls[:2]] == [(gpu.CUDA, 1, STREAM)] * 2, calls
    assert calls[2] == ("wait_all_stream", [100, 101], STREAM), calls
    assert names_of_calls()[3:] == ["health", "release"], calls
    assert not kept


@case
def gradients_belong_to_another_stream_that_waits_for_them_too() -> None:
    step_of_two(waits_elsewhere=True)

    assert calls[2] == ("wait_all_stream", [100, 101], STREAM + 1), calls
    assert len(kept) == 2, kept


def submitted_on_another_stream(compression: type, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient is ready on STREAM; another one is current when the queue looks at it. Returns
    the gradient afterwards."""
    parameter = torch.nn.Parameter(on_gpu(2, 3).to(gradient.dtype))
    parameter.grad = gradient
    reduction = gradient_slot.Reduction(
        hvd.Sum, 1.0, 1.0, compression, True, hvd.global_process_set
    )
    queue = gradient_queue.GradientQueue(1)
    slot = queue.slots[id(parameter)] = gradient_slot.GradientSlot("p", parameter, reduction)
    queue.submit(slot)
    with on_another_stream():
        queue.flush()
        if slot._travelling is not gradient:
            slot._travelling.mul_(2)  # in the place of the allreduce
        queue.finish()
    return parameter.grad


class OwnCompressor(hvd.Compression.fp16):
    """A program's own, which may do more than round."""


@case
def a_gradient_that_a_program_compresses_is_ready_on_the_stream_that_did() -> None:
    gradient = on_gpu(2, 3)
    result = submitted_on_another_stream(OwnCompressor, gradient)

    assert wires == [0]

    assert calls[0] == ("stream_waits", STREAM + 1, STREAM), calls
    assert calls[1][:2] == ("submit", "allreduce.p") and calls[1][3:] == (gpu.CUDA, 1, STREAM + 1)
    assert calls[1][2] != gradient.data_ptr() and gradient.data_ptr() in kept
    assert result is gradient and result.dtype is torch.float32 and bool((result == 2).all())


@case
def a_gradient_that_travels_as_it_is_stays_on_its_stream() -> None:
    gradient = on_gpu(2, 3)
    submitted_on_another_stream(hvd.Compression.none, gradient)

    assert calls[0][2:] == (gradient.data_ptr(), gpu.CUDA, 1, STREAM), calls
    assert wires == [0]


@case
def a_gradient_that_the_library_rounds_is_not_copied_before() -> None:
    gradient = on_gpu(2, 3)
    result = submitted_on_another_stream(hvd.Compression.fp16, gradient)

    assert calls[0][2:] == (gradient.data_ptr(), gpu.CUDA, 1, STREAM), calls
    assert wires == [library.enum("HVD_FLOAT16")]
    assert result is gradient and not kept[1:], kept


@case
def a_gradient_that_is_narrow_is_compressed_as_the_program_says() -> None:
    submitted_on_another_stream(hvd.Compression.fp16, torch.ones(2, 3).half().as_subclass(OnGpu))

    assert wires == [0]


@case
def a_gradient_that_is_copied_first_is_ready_on_the_stream_of_the_copy() -> None:
    gradient = on_gpu(3, 2).t()
    submitted_on_another_stream(hvd.Compression.none, gradient)

    assert calls[0] == ("stream_waits", STREAM + 1, STREAM), calls
    assert calls[1][3:] == (gpu.CUDA, 1, STREAM + 1) and calls[1][2] != gradient.data_ptr()


@case
def a_broken_world_is_an_error_before_gradients_are_applied() -> None:
    health[0] = operations._PEER_LOST[0]
    try:
        raises(hvd.HorovodInternalError, step_of_two)
    finally:
        health[0] = operations.OK

    assert names_of_calls()[-1] == "release", calls


@case
def a_world_that_breaks_after_synchronize_is_an_error_too() -> None:
    queue = step_of_two()
    queue.check_health()
    health[0] = operations._PEER_LOST[0]
    try:
        raises(hvd.HorovodInternalError, queue.check_health)
    finally:
        health[0] = operations.OK


@case
def a_failure_is_asked_for_without_a_wait_of_the_host() -> None:
    waited[0] = operations.INVALID_ARGUMENT
    try:
        raises(ValueError, step_of_two)
    finally:
        waited[0] = operations.OK

    assert names_of_calls()[2:5] == ["wait_all_stream", "wait_stream", "wait_stream"], calls


@case
def a_build_without_gpus_says_so() -> None:
    submission._DEVICES = ("cpu",)
    try:
        message = raises(NotImplementedError, lambda: hvd.allreduce(on_gpu(1)))
    finally:
        submission._DEVICES = ("cpu", "cuda")

    assert "the tensor is on cuda:1" in message and not calls, message


if __name__ == "__main__":
    hvd.init()
    wire()
    print("world 0 1", flush=True)
    for name in cases.names():
        calls.clear()
        kept.clear()
        wires.clear()
        run([name])
    os._exit(0)  # the library's own functions are gone
