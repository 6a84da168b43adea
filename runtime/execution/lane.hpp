// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/result.hpp"
#include "runtime/execution/communicators.hpp"
#include "runtime/execution/metrics.hpp"
#include "runtime/negotiation/stall.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::rt {

/// Operations of one process set that travel as one collective.
using Batch = std::vector<Operation*>;

/// A collective in flight.
struct RunningBatch {
    Batch operations;                   // none once they have completed: they are their callers'
    coll::Op op = coll::Op::allreduce;  // of them all
    std::span<std::byte> workspace;     // where it is packed, if it is
    std::unique_ptr<coll::Work> work;
    std::chrono::steady_clock::time_point since{};    // when the engine first slept meanwhile
    std::chrono::steady_clock::time_point started{};  // where it is timed
    int limit = 1;                                    // of its backend: so many may be in flight
    bool is_enqueued = false;                // on a device's stream; its operations have completed
    bool has_ended = false;                  // behind such ones
    std::optional<Connection> connection{};  // then there are no operations
};

/// The collectives of one process set, in order: those that wait to start, and those in flight.
struct Lane {
    /// Both outlive the lane.
    Lane(ProcessSetEntry& entry, const Backends& backends);

    ProcessSetEntry* set;
    Communicators communicators;  // before `running`, whose works use them
    std::deque<Batch> queue;
    std::deque<RunningBatch> running;
    std::string_view backend;  // that the last task went to
    SetMetrics metrics;
    std::optional<Error> end;  // a member has left: why what fails from now on fails

    [[nodiscard]] bool is_idle() const noexcept { return queue.empty() && running.empty(); }

    /// Whether something waits to start, or runs and is not in a device's stream yet.
    [[nodiscard]] bool is_waiting() const noexcept {
        return !queue.empty() || std::ranges::any_of(running, [](const RunningBatch& each) {
            return !each.is_enqueued && !each.has_ended;
        });
    }

    /// Whether the backends of what is in flight take another one.
    [[nodiscard]] bool has_slot() const noexcept {
        int limit = 1;
        for (const auto& each : running) {
            if (each.limit == 1 && !each.has_ended) {
                return false;
            }
            limit = std::max(limit, each.limit);
        }
        return running.size() < static_cast<std::size_t>(limit);
    }

    /// Whether a task would start at once.
    [[nodiscard]] bool has_room() const noexcept { return queue.empty() && has_slot(); }

    /// Adds how long the tensor groups have waited for the other ranks, where that was measured.
    void count_waits(std::span<Operation* const> leaders);

    /// Sets the begin of what is in flight and has none yet.
    void note_time(std::chrono::steady_clock::time_point now);

    /// Adds the collectives in flight to `list`.
    void list_in_flight(std::vector<Waiting>& list) const;

    /// Ends what is in flight: no peer that is gone is waited for any more.
    void abort(const Error& cause);

    /// Fails all operations, once the lane is aborted.
    void fail_all(TicketTable& tickets, const Error& cause);
};

}  // namespace hvd::rt
