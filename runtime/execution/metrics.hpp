// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/types.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hvd::rt {

/// Totals of one rank for one operation in one process set. The fields are those of hvd_metrics.
///
/// Times are measured of all large or fused collectives, and of one in 32 of the others: reading
/// the clock costs as much as a tenth of a small collective.
struct OperationMetrics {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;        // that this rank has put in
    std::uint64_t collectives = 0;  // messages, after fusion
    std::uint64_t largest = 0;      // bytes of a message
    std::uint64_t waits = 0;        // operations whose wait for the other ranks was measured
    std::chrono::nanoseconds wait{0};
    std::uint64_t timed = 0;  // messages of which the next were measured
    std::chrono::nanoseconds copy{0};
    std::chrono::nanoseconds wire{0};

    /// Counts one message.
    void count(std::size_t operations_in_it, std::uint64_t its_bytes) noexcept {
        operations += operations_in_it;
        bytes += its_bytes;
        largest = std::max(largest, its_bytes);
        ++collectives;
    }

    friend bool operator==(const OperationMetrics&, const OperationMetrics&) = default;
};

inline constexpr std::size_t kOperations = 6;                  // enumerators of coll::Op
using SetMetrics = std::array<OperationMetrics, kOperations>;  // by operation

struct MetricsRow {
    int process_set = 0;
    coll::Op op = coll::Op::allreduce;
    OperationMetrics metrics{};
};

inline constexpr std::size_t kAlwaysTimedBytes = std::size_t{64} << 10;
inline constexpr std::uint64_t kTimedOneIn = 32;

}  // namespace hvd::rt
