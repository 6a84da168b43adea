// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/topology.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::launch {

/// How many ranks a host takes.
struct Capacity {
    std::string host;
    int slots = 1;
    bool is_written = true;  // by the user, and so a limit; else counted by us
};

/// How many ranks each host gets: hosts in order, each filled before the next. Ranks beyond the
/// slots of all hosts are spread evenly over the hosts whose slots were counted; where there is
/// none, both numbers are in the Error. Unset `processes` means every slot.
[[nodiscard]] Result<std::vector<int>> fill_hosts(std::span<const Capacity> hosts,
                                                  std::optional<int> processes);

/// The topology of each rank, in rank order. `ranks_on` is the number of ranks on each host.
[[nodiscard]] std::vector<coll::Topology> number_ranks(std::span<const int> ranks_on);

}  // namespace hvd::launch
