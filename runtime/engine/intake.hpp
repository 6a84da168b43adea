// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "runtime/engine/inbox.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// Tensor groups that callers have submitted, on their way to the negotiator.
///
/// Thread: progress lock.
class Intake {
public:
    /// The referenced objects outlive this one. `cycle_time`: how long groups wait for others.
    Intake(Inbox<Operation*>& inbox,
           TicketTable& tickets,
           std::chrono::microseconds cycle_time) noexcept
        : inbox_(inbox), tickets_(tickets), cycle_time_(cycle_time) {}

    /// Takes the content of the inbox.
    void take();

    /// Adds groups behind it.
    void put(std::span<Operation* const> leaders);

    [[nodiscard]] bool empty() const noexcept { return leaders_.empty(); }
    [[nodiscard]] std::span<Operation* const> leaders() const noexcept { return leaders_; }

    /// Whether the groups are to wait for others: for the cycle time, and while they have fewer
    /// than `most_bytes`.
    [[nodiscard]] bool may_gather(std::size_t most_bytes);

    /// The end of that time.
    [[nodiscard]] Deadline gathers_until() const { return Deadline(gather_until_); }

    /// Forgets the groups, which the negotiator has.
    void clear() noexcept;

    /// Hands them out.
    [[nodiscard]] std::vector<Operation*> release();

private:
    Inbox<Operation*>& inbox_;
    TicketTable& tickets_;
    std::chrono::microseconds cycle_time_;
    std::vector<Operation*> leaders_;
    std::optional<Deadline::Clock::time_point> gather_until_;
};

}  // namespace hvd::rt
