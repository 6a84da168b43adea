// SPDX-License-Identifier: Apache-2.0
//
// Reading the memory of another process of this user without its help: one copy, and no cache line
// that both write (process_vm_readv; Open MPI and MPICH call it CMA).
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace hvd::coll {

/// A process as it describes itself: at this address of its memory lies a random number, which a
/// process with the same id, later or in another PID namespace, does not have there.
struct RemoteProcess {
    std::uint64_t pid = 0;
    std::uint64_t address = 0;
    std::uint64_t number = 0;
};

/// A piece of memory of another process.
struct RemotePiece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
};

/// Copies the pieces, end to end, into `to`, which is as long; without pieces it only looks for the
/// process. False: the process has ended, and bytes in `to` may be another's. Errors: unavailable
/// when the kernel refuses (another user, a container's rules, memory that is not mapped).
[[nodiscard]] Result<bool> read_process(const RemoteProcess& process,
                                        std::span<const RemotePiece> pieces,
                                        std::span<const std::span<std::byte>> to);

}  // namespace hvd::coll
