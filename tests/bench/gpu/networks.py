# SPDX-License-Identifier: Apache-2.0
"""How large the parameters of well-known networks are."""

from __future__ import annotations

# ResNet-50: bottlenecks of (width, blocks).
_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def sizes_of_resnet50() -> list[int]:
    """Elements of its 161 parameters, in the order of the network."""
    sizes, channels = [3 * 64 * 49, 64, 64], 64
    for width, blocks in _STAGES:
        for block in range(blocks):
            sizes += [channels * width, width, width, 9 * width * width, width, width]
            sizes += [4 * width * width, 4 * width, 4 * width]
            if block == 0:
                sizes += [channels * 4 * width, 4 * width, 4 * width]
            channels = 4 * width
    return [*sizes, channels * 1000, 1000]
