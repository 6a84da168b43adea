// SPDX-License-Identifier: Apache-2.0
//
// The data that members of a process set exchange before they make a communicator of NCCL.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/cuda/gpu.hpp"
#include "collectives/process_set.hpp"

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hvd::coll::nccl {

/// As bytes on the way: all members have the same byte order.
struct ConnectionInfo {
    std::int32_t nccl_version = 0;
    std::int32_t registers = 0;  // 1: memory of fused messages can be registered
    cuda::GpuUuid gpu{};
    ncclUniqueId id{};  // of the member at place 0; nothing of the others
};

[[nodiscard]] std::vector<std::byte> encode(const ConnectionInfo& info);

/// How all members of a process set connect.
struct Agreed {
    ncclUniqueId id{};
    bool registers = false;  // memory of fused messages: all of them, or none
};

/// From the data of all members in the order of their places. Errors: mismatch, where versions of
/// NCCL differ; invalid_argument, where two ranks use one GPU.
[[nodiscard]] Result<Agreed> compare(std::span<const std::byte> all, const ProcessSet& set);

/// The same where the members of each host connect among themselves: how those of this host do. The
/// errors are those of any host, so that all members get the same.
[[nodiscard]] Result<Agreed> compare_by_host(std::span<const std::byte> all, const ProcessSet& set);

}  // namespace hvd::coll::nccl
