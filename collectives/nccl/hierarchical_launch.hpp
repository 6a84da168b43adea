// SPDX-License-Identifier: Apache-2.0
//
// An allreduce of a process set on several hosts, of which NCCL connects the ranks of each alone.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/nccl/host_split.hpp"
#include "collectives/nccl/launch.hpp"
#include "collectives/nccl/pinned_buffers.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace hvd::coll::nccl {

/// The way of a process set from host to host.
struct AcrossHosts {
    HostSplit split;
    /// Of `split.across`; nullptr: this member has no part. The set's communicators on other GPUs
    /// share it: they run by turns, and it has one order of messages.
    std::shared_ptr<Communicator> host;
    PinnedBuffers& buffers;         // outlives this
    std::span<std::byte> pinned{};  // for two parts of a message, once the GPUs have been idle
};

/// `across` outlives the launch.
[[nodiscard]] std::unique_ptr<Launch> plan_hierarchical(const Task& task,
                                                        const ProcessSet& set,
                                                        const AcrossHosts& across);

}  // namespace hvd::coll::nccl
