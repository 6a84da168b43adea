// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/control/channel.hpp"
#include "runtime/engine/set_negotiation.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <utility>
#include <vector>

namespace hvd::rt {

/// This rank's join, from its submission until all ranks have joined, and what the rank has
/// submitted since.
///
/// Thread: progress lock.
class OwnJoin {
public:
    /// The referenced objects outlive this one.
    OwnJoin(Channel& channel, TicketTable& tickets) noexcept
        : channel_(channel), tickets_(tickets) {}

    [[nodiscard]] bool is_open() const noexcept { return join_ != nullptr; }
    [[nodiscard]] bool is_to_announce() const noexcept { return is_open() && !is_announced_; }

    /// Takes the join. None is open.
    void begin(Operation& join) noexcept { join_ = &join; }

    /// Keeps a group that the rank has submitted after its join.
    void hold(Operation& leader) { held_.push_back(&leader); }

    /// Tells the coordinator. Nothing that the rank has submitted before is open.
    void announce();

    /// All ranks have joined, `last_rank` last: that is the result.
    void complete(int last_rank);

    /// Fails the join, if it is open.
    void fail(const DescribeFailure& describe);

    /// The groups that were held, by their leaders.
    [[nodiscard]] std::vector<Operation*> take_held() noexcept { return std::exchange(held_, {}); }

private:
    [[nodiscard]] Operation& end() noexcept;

    Channel& channel_;
    TicketTable& tickets_;
    Operation* join_ = nullptr;
    bool is_announced_ = false;
    std::vector<Operation*> held_;
};

}  // namespace hvd::rt
