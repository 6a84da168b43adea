// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/result.hpp"
#include "runtime/execution/metrics.hpp"
#include "runtime/negotiation/stall.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/ticket_table.hpp"

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
    Batch operations;
    std::span<std::byte> workspace;  // where it is packed, if it is
    std::unique_ptr<coll::Work> work;
    std::chrono::steady_clock::time_point since{};    // when the engine first slept meanwhile
    std::chrono::steady_clock::time_point started{};  // where it is timed
    bool is_enqueued = false;  // on a device's stream; its operations have completed
};

/// The collectives of one process set, in order: those that wait to start, and those in flight.
struct Lane {
    ProcessSetEntry* set = nullptr;
    /// By backend; each is made when the first task goes that way. Before `running`, whose works
    /// use them.
    std::vector<std::unique_ptr<coll::Communicator>> communicators;
    std::deque<Batch> queue;
    std::deque<RunningBatch> running;
    int max_in_flight = 1;     // of the backend that the last task went to
    std::string_view backend;  // its name
    SetMetrics metrics;
    std::optional<Error> end;  // a member has left: why what fails from now on fails

    [[nodiscard]] bool is_idle() const noexcept { return queue.empty() && running.empty(); }

    /// Whether a task would start at once.
    [[nodiscard]] bool has_room() const noexcept {
        return queue.empty() && running.size() < static_cast<std::size_t>(max_in_flight);
    }

    /// Adds the collectives in flight to `list`.
    void list_in_flight(std::vector<Waiting>& list) const;

    /// Ends what is in flight: no peer that is gone is waited for any more.
    void abort(const Error& cause);

    /// Fails all operations, once the lane is aborted.
    void fail_all(TicketTable& tickets, const Error& cause);
};

}  // namespace hvd::rt
