// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/process_set.hpp"
#include "collectives/types.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

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

struct MetricsRow {
    int process_set = 0;
    coll::Op op = coll::Op::allreduce;
    OperationMetrics metrics{};
};

/// How often a rank was the last one of a process set to be ready for an operation, and how long
/// this rank has waited then. The fields are those of hvd_arrivals.
struct ArrivalsRow {
    int process_set = 0;
    coll::Op op = coll::Op::allreduce;
    int rank = 0;  // of the world
    std::uint64_t times = 0;
    std::chrono::nanoseconds wait{0};

    friend bool operator==(const ArrivalsRow&, const ArrivalsRow&) = default;
};

/// Of one rank, by process set and operation, in that order; arrivals by rank, too.
struct Metrics {
    std::vector<MetricsRow> operations{};
    std::vector<ArrivalsRow> arrivals{};
};

/// The totals of one process set.
class SetMetrics {
public:
    [[nodiscard]] OperationMetrics& of(coll::Op op) { return at(op).totals; }

    /// Counts a wait that was measured. `last_rank`, which may be none (-1), was the last to come.
    void count_wait(coll::Op op,
                    const coll::ProcessSet& set,
                    int last_rank,
                    std::chrono::nanoseconds wait);

    /// Adds the rows of the operations that have been run.
    void list(const coll::ProcessSet& set, Metrics& list) const;

private:
    struct Arrivals {
        std::uint64_t times = 0;
        std::chrono::nanoseconds wait{0};
    };
    struct PerOperation {
        OperationMetrics totals;
        std::vector<Arrivals> by_place;  // in the set, of the last rank; empty: none is known
    };
    static constexpr std::size_t kOperations = 6;  // enumerators of coll::Op

    [[nodiscard]] PerOperation& at(coll::Op op) {
        return operations_.at(static_cast<std::size_t>(op));
    }

    std::array<PerOperation, kOperations> operations_{};
};

inline constexpr std::size_t kAlwaysTimedBytes = std::size_t{64} << 10;
inline constexpr std::uint64_t kTimedOneIn = 32;

}  // namespace hvd::rt
