// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/process_set.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/negotiation/coordinator.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {

/// Runs the coordinator on rank 0: announcements of all ranks in, entries of the log out.
///
/// Thread: progress lock.
class CoordinatorDriver {
public:
    /// The referenced objects outlive this one. `fusion_bytes` counts for all ranks.
    CoordinatorDriver(Channel& channel,
                      TicketTable& tickets,
                      Coordinator coordinator,
                      coll::ProcessSet world,
                      std::optional<std::size_t> fusion_bytes);

    /// Takes all announcements that have come. True if anything was appended. Errors: the
    /// channel's; internal for what no rank of this version sends.
    [[nodiscard]] Result<bool> step();

    /// Has read in the log that the ids are ready.
    void on_ready(std::span<const CacheId> ids) { coordinator_.on_ready(ids); }

    /// Has read in the log that the rank has left: see Coordinator.
    void on_left(int rank) {
        coordinator_.on_left(rank);
        has_waiting_ = coordinator_.has_waiting();
    }

    /// Ends the world with the error, on all ranks: `culprit` has been waited for too long with the
    /// tensor `name`.
    void end_world(int culprit, const std::string& name, const Error& error);

    /// The same, where the rank itself has said that it cannot go on.
    void end_world_of(int rank, const Error& cause);

    /// The waiting tensors, with the ranks that they wait for.
    [[nodiscard]] std::vector<Waiting> waiting() const { return coordinator_.waiting(); }
    [[nodiscard]] bool has_waiting() const noexcept { return has_waiting_; }

    /// The longest time that an operation announced since the last call had waited before.
    [[nodiscard]] std::chrono::milliseconds take_longest_wait() noexcept {
        return std::exchange(longest_wait_, std::chrono::milliseconds(0));
    }

private:
    void show(int rank, const Announcement& announcement) const;
    void append(std::vector<LogEntry> entries);
    void append(Decision decision, bool more);

    Channel& channel_;
    Coordinator coordinator_;
    TicketTable& tickets_;
    std::optional<std::size_t> fusion_bytes_;
    /// Of every set, those that read its entries; ahead of what this rank has read in the log.
    std::map<int, coll::ProcessSet> readers_;
    bool has_waiting_ = false;  // as of the last announcement
    std::chrono::milliseconds longest_wait_{0};
};

}  // namespace hvd::rt
