# SPDX-License-Identifier: Apache-2.0
"""ncclAllReduce itself, of the NCCL that PyTorch has loaded, with a communicator of one rank."""

from __future__ import annotations

import ctypes

import torch

_FLOAT32, _SUM = 7, 0


def _loaded() -> ctypes.CDLL:
    with open("/proc/self/maps") as maps:
        paths = {line.split()[-1] for line in maps if "libnccl.so" in line}
    return ctypes.CDLL(paths.pop() if paths else "libnccl.so.2")


class BareNccl:
    def __init__(self, device: int) -> None:
        self._nccl = _loaded()
        self._communicator = ctypes.c_void_p()
        devices = (ctypes.c_int * 1)(device)
        self._check(self._nccl.ncclCommInitAll(ctypes.byref(self._communicator), 1, devices))
        version = ctypes.c_int()
        self._check(self._nccl.ncclGetVersion(ctypes.byref(version)))
        self.version = version.value

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise RuntimeError(f"NCCL: status {status}")

    def allreduce(self, tensor: torch.Tensor, out: torch.Tensor) -> None:
        addresses = (ctypes.c_void_p(tensor.data_ptr()), ctypes.c_void_p(out.data_ptr()))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        count = ctypes.c_size_t(tensor.numel())
        self._check(
            self._nccl.ncclAllReduce(*addresses, count, _FLOAT32, _SUM, self._communicator, stream)
        )
