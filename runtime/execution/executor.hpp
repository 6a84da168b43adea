// SPDX-License-Identifier: Apache-2.0
//
// Runs what the ranks have agreed on: pack, start, poll, unpack, complete.
#pragma once

#include "collectives/backend.hpp"
#include "collectives/base/deadline.hpp"
#include "collectives/base/tally.hpp"
#include "runtime/execution/device_order.hpp"
#include "runtime/execution/idle_release.hpp"
#include "runtime/execution/lanes.hpp"
#include "runtime/negotiation/stall.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::rt {

/// Collectives of several lanes in flight at a time, those of one lane in order. Every rank is
/// given the batches of a set in the same order and therefore runs the same collectives.
///
/// Thread: progress lock.
class Executor {
public:
    struct Setup {
        Backends backends;
        std::chrono::milliseconds idle_limit{10'000};  // of devices, before memory is given back
    };

    /// Counted before the operations complete.
    struct Totals {
        Tally collectives;
        Tally bytes;
    };

    Executor(Setup setup, TicketTable& tickets);
    ~Executor() = default;
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    /// Takes tensor groups of one process set that are ready together, by their leaders. They are
    /// fused up to so many bytes, the same on all ranks; nothing: what suits the backend.
    void enqueue(std::span<Operation* const> leaders, std::optional<std::size_t> fusion_bytes);

    /// Runs one operation at once, while nothing of its set waits to start. `inputs` are those of
    /// all members, by place. For backends that are like LocalResult.
    void run(Operation& operation, std::span<const std::byte* const> inputs);

    /// Whether all operations of the set on the host's memory go to such a backend.
    [[nodiscard]] bool is_like_local_result(const coll::ProcessSet& set) const;

    /// Does what can be done now. True if something moved.
    [[nodiscard]] bool step();

    /// Whether a task of the set would start at once, on whichever devices.
    [[nodiscard]] bool has_room(int process_set) const noexcept;

    /// Whether anything waits to start or is in flight.
    [[nodiscard]] bool is_busy() const noexcept { return !lanes_.active().empty(); }

    /// Whether anything of it is not in a device's stream yet, and may soon move.
    [[nodiscard]] bool is_waiting() const noexcept;

    /// When to look again for what devices do: nobody wakes the engine then.
    [[nodiscard]] Deadline next_look() const;

    /// Nothing more of the set comes: what it holds is freed after its last collective.
    void close(int process_set) { lanes_.close(process_set); }

    /// A member of the set has left. What was enqueued may finish; if one of the set's collectives
    /// fails, that fails the rest of this set with `cause`, and no other.
    void end(int process_set, const Error& cause);

    /// Whether anything of such a set waits to start or is in flight.
    [[nodiscard]] bool is_ending() const noexcept;

    /// Fails what is left of such sets.
    void abort_ending();

    /// Fails what runs and everything later with `cause`.
    void abort(const Error& cause);

    /// Set when a collective failed: the world cannot go on.
    [[nodiscard]] const std::optional<Error>& broken() const noexcept { return broken_; }

    /// Sets the begin of the collectives in flight that have none yet to `now`, for
    /// `list_in_flight`.
    void note_time(std::chrono::steady_clock::time_point now);

    /// Adds the collectives in flight to `list`.
    void list_in_flight(std::vector<Waiting>& list) const;

    /// The largest fused message that suits the backend of such tensors.
    [[nodiscard]] std::size_t usual_fusion_bytes(
        coll::Device::Kind device = coll::Device::Kind::host) const;

    /// Of each operation that has been run in a set that exists.
    [[nodiscard]] Metrics metrics() const;

    [[nodiscard]] const Totals& totals() const noexcept { return totals_; }

private:
    [[nodiscard]] bool step(Lane& lane);
    [[nodiscard]] bool may_start(const Lane& lane) const;
    [[nodiscard]] bool poll(Lane& lane);
    void finish_first(Lane& lane);
    void start_next(Lane& lane);
    [[nodiscard]] Result<RunningBatch> start_connecting(Lane& host, Lane& lane);
    [[nodiscard]] Result<RunningBatch> start(Lane& lane, const Batch& batch);
    void on_failure(Lane& lane, const Batch& batch, const Error& error);
    void show(Moment moment,
              std::span<Operation* const> operations,
              std::string_view backend = {}) const;

    Setup setup_;
    TicketTable& tickets_;
    Lanes lanes_;
    DeviceOrder device_order_;
    IdleRelease idle_release_;
    coll::Task task_;                       // scratch
    std::vector<const std::byte*> inputs_;  // scratch
    std::optional<Error> broken_;
    Totals totals_;
};

}  // namespace hvd::rt
