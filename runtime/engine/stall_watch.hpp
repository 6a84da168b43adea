// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/control/channel.hpp"
#include "runtime/engine/negotiator.hpp"
#include "runtime/execution/executor.hpp"
#include "runtime/negotiation/stall.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd::rt {

/// Looks for stalls while something is open, and says so. Rank 0 reports what ranks have not
/// submitted; what waits in a proposal, or in flight, is reported by the first rank that waits.
///
/// Thread: progress lock.
class StallWatch {
public:
    using TimePoint = Waiting::TimePoint;

    struct Setup {
        StallLimits limits;
        int rank = 0;
        std::function<void(const std::string& line)> tell;  // may be empty
        /// The world ends because of these ranks. May be empty.
        std::function<void(std::span<const int> missing, const std::string& why)> blame;
    };

    /// The referenced objects outlive this one.
    StallWatch(Setup setup, Channel& channel, Negotiator& negotiator, Executor& executor)
        : setup_(std::move(setup)),
          inspector_(setup_.limits),
          channel_(channel),
          negotiator_(negotiator),
          executor_(executor) {}

    [[nodiscard]] bool is_on() const noexcept { return setup_.limits.warning.has_value(); }

    /// Before the engine sleeps with something open. True if it has told other ranks something, or
    /// found that the world ends.
    [[nodiscard]] bool look(TimePoint now);

    /// Nothing is open any more.
    void rest() noexcept { next_.reset(); }

    /// When to look again, though nothing happens.
    [[nodiscard]] std::optional<TimePoint> next() const noexcept { return next_; }

    /// A peer that this rank has waited for too long, by its own clock.
    [[nodiscard]] const std::optional<Channel::PeerFailure>& verdict() const noexcept {
        return verdict_;
    }

private:
    void tell(const StallInspector::Report& report) const;
    void end_job(const StallInspector::Report& report);

    Setup setup_;
    StallInspector inspector_;
    Channel& channel_;
    Negotiator& negotiator_;
    Executor& executor_;
    std::optional<TimePoint> next_;
    std::vector<Waiting> waiting_;  // scratch
    std::optional<Channel::PeerFailure> verdict_;
};

}  // namespace hvd::rt
