// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a kernel that packs or unpacks: one block and one table, the same
// bytes for a GPU and for the kernels' twins on the host.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvd::coll::cuda {

/// One tensor, and where it lies in the fused buffer. Tables are ascending by offset; tensors do
/// not overlap in the buffer.
struct PackEntry {
    std::byte* tensor = nullptr;  // aligned to its type; 16 bytes make it fast
    std::uint64_t offset = 0;     // in elements of the buffer
    std::uint64_t count = 0;      // elements
};

/// Elements are bytes for hvd_copy, else values.
struct PackArguments {
    const PackEntry* entries = nullptr;  // in the device's memory
    std::byte* fused = nullptr;          // aligned to 16 bytes
    std::uint64_t entry_count = 0;
    std::uint64_t total = 0;  // elements of the buffer, up to the end of the last tensor
    std::uint64_t tile =
        0;              // elements of the buffer that one warp takes at a time: a multiple of 16
    double factor = 1;  // every value is divided by the divisor, then multiplied by this
    std::int64_t divisor = 1;
    std::uint64_t is_pack = 0;  // 1: tensors into the buffer; 0: the buffer into tensors
};

inline constexpr unsigned kWarp = 32;

}  // namespace hvd::coll::cuda

/// The kernels: X(type that is read, type that is written). Each is called
/// hvd_convert_<read>_<written>, and packs or unpacks. Beside them hvd_copy moves bytes as they
/// are.
// clang-format off
#define HVD_PACK_KERNELS(X)                                                               \
    X(f16, f16) X(bf16, bf16) X(f32, f32) X(f64, f64)     /* scaled, averaged */          \
    X(i32, i32) X(u32, u32) X(i64, i64) X(u64, u64)                                       \
    X(f32, f16) X(f16, f32) X(f32, bf16) X(bf16, f32)     /* compressed */                \
    X(f64, f16) X(f16, f64) X(f64, bf16) X(bf16, f64)                                     \
    X(i16, i32) X(i32, i16) X(u16, u32) X(u32, u16)       /* NCCL has no 16-bit integers */ \
    X(i8, i32) X(i32, i8) X(u8, u32) X(u32, u8)           /* exact sums, for averages */  \
    X(i32, i64) X(i64, i32) X(u32, u64) X(u64, u32)
// clang-format on
