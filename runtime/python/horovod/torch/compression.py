# SPDX-License-Identifier: Apache-2.0
"""What a gradient looks like while it travels."""

from __future__ import annotations

import torch


class Compressor:
    """Turns a tensor into the one that travels, and the result back."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype | None]:
        """The tensor that travels, and what `decompress` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Nothing changes."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype | None]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Floating point travels as float16. An optimizer's sums and averages of float32 and float64
    are rounded by the library, in the copies that it makes anyway."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype | None]:
        return tensor.half() if tensor.is_floating_point() else tensor, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype | None) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class Compression:
    """The choices for `compression=`."""

    none = NoneCompressor
    fp16 = FP16Compressor
