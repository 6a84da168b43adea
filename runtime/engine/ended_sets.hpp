// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/execution/executor.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>

namespace hvd::rt {

/// For a collective in which a peer that has ended or left in the middle of something may have done
/// its part.
inline constexpr std::chrono::milliseconds kDepartureLimit{300};

/// The collectives of process sets that have ended while others go on. One that needs a rank which
/// has left may never end, and is not waited for beyond kDepartureLimit.
///
/// Thread: progress lock.
class EndedSets {
public:
    /// The referenced objects outlive this one.
    EndedSets(const Channel& channel, Executor& executor)
        : channel_(channel), executor_(executor) {}

    /// Aborts the collectives whose time is over. Gives the rank of `departed` that they need.
    [[nodiscard]] std::optional<int> abort_overdue(std::span<const int> departed) {
        const auto found = !executor_.is_ending()
                               ? departed.end()
                               : std::ranges::find_if(departed, [this](int rank) {
                                     return channel_.has_left_unfinished(rank);
                                 });
        if (found == departed.end()) {
            limit_.reset();
            return std::nullopt;
        }
        limit_ = limit_.value_or(Deadline::in(kDepartureLimit).end().value());
        if (!Deadline(limit_).has_passed()) {
            return std::nullopt;
        }
        limit_.reset();
        executor_.abort_ending();
        return *found;
    }

    /// When to look again, though nothing happens.
    [[nodiscard]] std::optional<Deadline::Clock::time_point> next() const noexcept {
        return limit_;
    }

    /// The world has ended.
    void rest() noexcept { limit_.reset(); }

private:
    const Channel& channel_;
    Executor& executor_;
    std::optional<Deadline::Clock::time_point> limit_;
};

}  // namespace hvd::rt
