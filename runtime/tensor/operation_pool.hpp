// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/tensor/operation.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hvd::rt {

/// Number of one operation; 0 is never a ticket. A released number is not given out again before
/// 2^32 other operations have used its place.
using Ticket = std::uint64_t;

[[nodiscard]] inline Ticket ticket_of(const Operation& operation) noexcept {
    return (Ticket{operation.generation.load(std::memory_order_relaxed)} << 32) |
           (operation.index + 1);
}

/// The memory of operations. It lives in chunks that are never freed before the pool, so that a
/// stale ticket is an error and never a crash.
///
/// Thread: its owner locks, but for `find`.
class OperationPool {
public:
    OperationPool();
    ~OperationPool();
    OperationPool(const OperationPool&) = delete;
    OperationPool& operator=(const OperationPool&) = delete;

    /// One without names; what else it holds is that of its last use.
    /// Throws Exception (unavailable) when 4 million are in use, and std::bad_alloc.
    [[nodiscard]] Operation& take();

    /// From here on its ticket is unknown.
    void put_back(Operation& operation) noexcept;

    /// Errors: invalid_argument for what is no ticket, or no longer one. Thread: any.
    [[nodiscard]] Result<Operation*> find(Ticket ticket) const;

private:
    static constexpr std::size_t kChunk = 256;
    static constexpr std::size_t kMaxChunks = 16384;
    using Chunk = std::array<Operation, kChunk>;

    std::vector<Operation*> free_;
    std::size_t chunk_count_ = 0;
    std::unique_ptr<std::array<std::atomic<Chunk*>, kMaxChunks>> chunks_;
};

}  // namespace hvd::rt
