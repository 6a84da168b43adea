// SPDX-License-Identifier: Apache-2.0
#include "collectives/process_set.hpp"

#include <algorithm>
#include <numeric>

namespace hvd::coll {

bool ProcessSet::is_on_one_host() const noexcept {
    return std::ranges::all_of(hosts, [this](int host) { return host == hosts.front(); });
}

std::vector<std::vector<int>> places_by_host(std::span<const int> hosts) {
    std::vector<std::vector<int>> places;
    for (std::size_t place = 0; place < hosts.size(); ++place) {
        const auto known = std::ranges::find_if(places, [&](const auto& of_host) {
            return hosts[static_cast<std::size_t>(of_host.front())] == hosts[place];
        });
        auto& own = known == places.end() ? places.emplace_back() : *known;
        own.push_back(static_cast<int>(place));
    }
    return places;
}

ProcessSet members_at(const ProcessSet& set, std::span<const int> places) {
    ProcessSet part{.id = set.id, .ranks = {}, .place = -1, .hosts = {}};
    part.incarnation = set.incarnation;
    for (const int place : places) {
        if (place == set.place) {
            part.place = part.size();
        }
        part.ranks.push_back(set.rank_at(place));
        part.hosts.push_back(set.hosts.at(static_cast<std::size_t>(place)));
    }
    return part;
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
