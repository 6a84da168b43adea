// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/process_set.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/negotiation/coordinator.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// Runs the coordinator on rank 0: announcements of all ranks in, entries of the log out.
///
/// Thread: progress lock.
class CoordinatorDriver {
public:
    /// `channel` outlives this. `fusion_bytes` counts for all ranks.
    CoordinatorDriver(Channel& channel,
                      Coordinator coordinator,
                      coll::ProcessSet world,
                      std::optional<std::size_t> fusion_bytes);

    /// Takes all announcements that have come. True if anything was appended. Errors: the channel's;
    /// internal for what no rank of this version sends.
    [[nodiscard]] Result<bool> step();

    /// Has read in the log that the ids are ready.
    void on_ready(std::span<const CacheId> ids) { coordinator_.on_ready(ids); }

    [[nodiscard]] const Coordinator& coordinator() const noexcept { return coordinator_; }

private:
    void append(std::vector<LogEntry> entries);
    void append(Decision decision, bool more);

    Channel& channel_;
    Coordinator coordinator_;
    std::optional<std::size_t> fusion_bytes_;
    /// Of every set, those that read its entries; ahead of what this rank has read in the log.
    std::map<int, coll::ProcessSet> readers_;
};

}  // namespace hvd::rt
