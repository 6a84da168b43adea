// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/result.hpp"
#include "runtime/execution/communicators.hpp"
#include "runtime/execution/device_order.hpp"
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

/// Operations of one lane that travel as one collective.
using Batch = std::vector<Operation*>;

struct Lane;

/// An entry of a lane's queue: a batch, or the exchange that connects another lane of the set.
struct Queued {
    Batch operations{};
    Lane* connects = nullptr;  // then there are no operations
};

/// A collective in flight.
struct RunningBatch {
    Batch operations;                   // none once they have completed: they are their callers'
    coll::Op op = coll::Op::allreduce;  // of them all
    std::span<std::byte> workspace;     // where it is packed, if it is
    std::unique_ptr<coll::Work> work;
    std::chrono::steady_clock::time_point since{};    // when the engine first slept meanwhile
    std::chrono::steady_clock::time_point started{};  // where it is timed
    int limit = 1;                                    // of its backend: so many may be in flight
    bool is_enqueued = false;  // on a device's stream; its operations have completed
    bool has_ended = false;    // behind such ones
    Lane* connects = nullptr;  // see Queued
};

/// The lanes of one process set.
struct SetLanes {
    ProcessSetEntry* set;
    SetMetrics metrics{};
    std::optional<Error> end{};  // a member has left: why what fails from now on fails
    std::vector<std::unique_ptr<Lane>> lanes{};  // that of the hosts' memory is the first

    [[nodiscard]] bool is_idle() const noexcept;

    /// Whether a task of any lane would start at once.
    [[nodiscard]] bool has_room() const noexcept;

    /// Adds how long the tensor groups have waited for the other ranks, where that was measured.
    void count_waits(std::span<Operation* const> leaders);

    /// Fails what is in them, once there is an `end`.
    void abort(TicketTable& tickets, DeviceOrder& order);
};

/// The collectives of one process set on one list of its members' devices, in order: those that
/// wait to start, and those in flight.
struct Lane {
    /// The references outlive the lane.
    Lane(SetLanes& all, const DeviceList* list, const Backends& backends);

    SetLanes* siblings;
    const DeviceList* devices;    // nullptr: the hosts' memory
    Communicators communicators;  // before `running`, whose works use them
    std::deque<Queued> queue;
    std::deque<RunningBatch> running;
    bool is_connected;           // the members' communicators know of each other
    bool is_connecting = false;  // that is queued, or done

    [[nodiscard]] const coll::ProcessSet& set() const noexcept { return siblings->set->set; }

    [[nodiscard]] bool is_on_device() const noexcept { return devices != nullptr; }

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
