// SPDX-License-Identifier: Apache-2.0
//
// How a list of tensors is packed into one buffer and unpacked from it: which kernel, how many
// threads, with which arguments. Pure: no GPU and no driver.
#pragma once

#include "collectives/cuda/pack_arguments.hpp"
#include "collectives/types.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hvd::coll::cuda {

/// The change of every value on its way.
struct PackChange {
    DataType from = DataType::f32;
    DataType to = DataType::f32;
    double factor = 1;
    std::int64_t divisor = 1;  // values are divided by it first
};

/// The kernel's name; nothing where there is none for these types. Values that stay as they are
/// are copied as bytes (see lay_out), whatever their type.
[[nodiscard]] std::optional<std::string_view> pack_kernel(const PackChange& change) noexcept;

/// Whether the change is none, so that elements are bytes.
[[nodiscard]] bool is_copy(const PackChange& change) noexcept;

/// Gives every tensor its place in the buffer, one after the other, each at a multiple of 16 bytes.
/// `element_bytes` is the size of an element in the buffer. Returns the elements of the buffer.
[[nodiscard]] std::uint64_t lay_out(std::span<PackEntry> entries,
                                    std::size_t element_bytes) noexcept;

struct PackLaunch {
    std::string_view kernel;
    unsigned blocks = 0;
    unsigned threads = 0;  // of a block
    PackArguments arguments{};
};

/// The launch that packs (or unpacks) all tensors. `entries` lie in the device's memory as
/// `table`. `processors` is how many multiprocessors the GPU has. Nothing where no kernel changes
/// values so. A launch of 0 blocks has nothing to do.
[[nodiscard]] std::optional<PackLaunch> plan_pack(const PackChange& change,
                                                  bool is_pack,
                                                  std::span<const PackEntry> entries,
                                                  const PackEntry* table,
                                                  std::byte* fused,
                                                  unsigned processors) noexcept;

}  // namespace hvd::coll::cuda
