// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"
#include "runtime/control/channel.hpp"
#include "runtime/tensor/operation.hpp"
#include "runtime/tensor/process_set_table.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hvd::rt {

/// The ranks that have left the world, and the process sets that ended because a member left. The
/// world is one of them; sets without these ranks go on.
///
/// Every rank reads the departures in the log, at the same place among the changes of process sets,
/// so that all ranks end the same sets.
class Departures {
public:
    /// The referenced objects outlive this one. `on_missed` is called with the rank before an
    /// operation fails because it left; not for this rank.
    Departures(const ProcessSetTable& sets,
               const Channel& channel,
               std::function<void(int rank)> on_missed);

    /// The rank has left. Returns the sets that end with it, ascending.
    [[nodiscard]] std::vector<int> add(int rank);

    /// Ends a set that was added after a departure: its members know nothing of it.
    void end_new(int set) { ended_.try_emplace(set, ranks_.front()); }

    /// In the order in which they have left.
    [[nodiscard]] const std::vector<int>& ranks() const noexcept { return ranks_; }

    [[nodiscard]] bool is_empty() const noexcept { return ended_.empty(); }

    /// The rank whose departure has ended the set, or nothing.
    [[nodiscard]] std::optional<int> cause_of(int set) const;

    /// Why the group, by its leader, is about to fail: the rank has left.
    [[nodiscard]] Error miss(const Operation& leader, int rank) const;

    [[nodiscard]] int own_rank() const noexcept { return own_rank_; }

    /// Whether there is a set that has not ended.
    [[nodiscard]] bool has_live_set() const;

private:
    const ProcessSetTable& sets_;
    const Channel& channel_;
    std::function<void(int)> on_missed_;
    int own_rank_;
    std::vector<int> ranks_;
    std::map<int, int> ended_;  // set, rank
};

/// The cause of failures on a rank that has left.
[[nodiscard]] Error shut_down_error();

/// The end of a sentence that begins with the rank that has left: why the operation needs it.
[[nodiscard]] std::string describe_need(const Operation& leader, int rank);

}  // namespace hvd::rt
