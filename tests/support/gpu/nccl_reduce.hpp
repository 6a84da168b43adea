// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of the stand-in for NCCL: as NCCL's, f16 and bf16 are rounded after every step.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>

namespace hvd::test::gpu {

/// Bytes of an element; 0 for types that the stand-in does not have.
[[nodiscard]] std::size_t element_bytes(ncclDataType_t type) noexcept;

struct Reduction {
    ncclDataType_t type = ncclFloat32;
    ncclRedOp_t op = ncclSum;
    double factor = 1;  // of every input
};

/// Reduces `count` elements of each input, in their order, into `to`, which is none of them.
void reduce(const Reduction& reduction,
            std::span<const std::byte* const> inputs,
            std::byte* to,
            std::size_t count);

}  // namespace hvd::test::gpu
