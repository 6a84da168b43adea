// SPDX-License-Identifier: Apache-2.0
#include "collectives/process_set.hpp"

#include <algorithm>
#include <numeric>

namespace hvd::coll {

bool ProcessSet::is_on_one_host() const noexcept {
    return std::ranges::all_of(hosts, [this](int host) { return host == hosts.front(); });
}

ProcessSet world_of(const Topology& topology) {
    ProcessSet world{.id = 0, .ranks = {}, .place = topology.rank, .hosts = {}};
    world.ranks.resize(static_cast<std::size_t>(topology.size));
    std::iota(world.ranks.begin(), world.ranks.end(), 0);
    world.hosts =
        topology.local_size == topology.size ? std::vector<int>(world.ranks.size()) : world.ranks;
    return world;
}

}  // namespace hvd::coll
