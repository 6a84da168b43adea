// SPDX-License-Identifier: Apache-2.0
//
// The arguments of the kernels that combine two fused gradients by Adasum (reduce/adasum.hpp), the
// same bytes for a GPU and for the kernels' twins on the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd::coll::cuda {

/// A part of a tensor that one warp takes, in elements.
inline constexpr std::uint64_t kAdasumChunk = 8192;

/// One tensor of both gradients, and the number of its first chunk. Tables are ascending by both,
/// and have no tensor of 0 elements.
struct AdasumEntry {
    std::uint64_t offset = 0;  // in elements of the gradient
    std::uint64_t count = 0;
    std::uint64_t first_chunk = 0;
};

/// Sums of each lane of a warp: of a*b, a*a and b*b, for each chunk (`partials`) or tensor
/// (`totals`).
inline constexpr std::uint64_t kAdasumSums = std::uint64_t{3} * 32;

/// Addresses are of the device's memory.
struct AdasumArguments {
    const AdasumEntry* entries = nullptr;
    const std::byte* left = nullptr;   // a
    const std::byte* right = nullptr;  // b
    std::byte* result = nullptr;       // may be `left` or `right`
    double* partials = nullptr;        // kAdasumSums for each chunk
    double* totals = nullptr;          // kAdasumSums for each tensor
    std::uint64_t entry_count = 0;
    std::uint64_t chunk_count = 0;
};

}  // namespace hvd::coll::cuda

/// The kernels of two gradients of this type, one after the other: hvd_adasum_dots_<type>,
/// hvd_adasum_totals, hvd_adasum_combine_<type>.
// clang-format off
#define HVD_ADASUM_TYPES(X) X(f32) X(f64)
// clang-format on
