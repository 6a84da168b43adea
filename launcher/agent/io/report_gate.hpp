// SPDX-License-Identifier: Apache-2.0
//
// Decides which report of a process speaks for its rank. No I/O.
#pragma once

#include "launcher/agent/processes/process_table.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace hvd::launch::agent {

/// Any process of a rank may connect to the agent and report, but only the rank itself may end the
/// job: the process that was started as the rank, or the one below a wrapper (a shell, torchrun)
/// that has become the rank.
///
/// Reports of the children of that process are not told. A wrapper, too, can handle an exception of
/// the program in it and go on: that exception is told once the wrapper ends, or when the program
/// still lives kTeardownTime after it.
class ReportGate final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// An end by an exception takes less.
    static constexpr auto kTeardownTime = std::chrono::seconds(2);

    /// An exception is not the reason for an end that comes so much later.
    static constexpr auto kHandledAfter = std::chrono::seconds(30);

    /// `lineage` is that of a process which connects as this rank: itself, and its ancestors up to
    /// the process that was started as the rank.
    void welcome(int rank, std::span<const Process> lineage);

    /// Whether the report of that process is told at once.
    [[nodiscard]] bool admits(const wire::RankReport& report,
                              std::span<const Process> lineage,
                              TimePoint now);

    /// The reports that are due now, of processes that `lives` says have not ended.
    [[nodiscard]] std::vector<wire::RankReport> take_due(
        TimePoint now,
        const std::function<bool(const Process&)>& lives);
    [[nodiscard]] std::optional<TimePoint> deadline() const;

    /// The reports that tell why the rank ends, if it does not end well.
    [[nodiscard]] std::vector<wire::RankReport> rank_ended(int rank);

private:
    struct Held {
        wire::RankReport report;
        std::vector<Process> lineage;
        TimePoint since;
        bool was_due = false;

        [[nodiscard]] TimePoint next() const {
            return since + (was_due ? kHandledAfter : kTeardownTime);
        }
    };

    std::map<int, std::vector<Process>> welcomed_;  // by rank; not those below others of them
    std::vector<Held> held_;                        // the oldest first
};

}  // namespace hvd::launch::agent
