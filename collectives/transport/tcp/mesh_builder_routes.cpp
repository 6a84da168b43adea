// SPDX-License-Identifier: Apache-2.0
//
// The part of a MeshBuilder that finds the addresses by which each two hosts reach each other. The
// scouts of all hosts connect; by which addresses they do is what holds for the other ranks of
// their hosts.
#include "collectives/transport/tcp/mesh_builder.hpp"

#include <algorithm>
#include <utility>

namespace hvd::coll::net {

int MeshBuilder::own_scout() const {
    return scouts_[static_cast<std::size_t>(options_.rank)];
}

Status MeshBuilder::find_ways(Store& store) {
    if (!is_scout()) {
        HVD_TRY_STATUS(hear_from_scout(store));
        keep_listeners_on_ways();
        return ok();
    }
    auto scouted = scout();
    const bool is_alone = std::ranges::count(scouts_, options_.rank) == 1;
    if (!is_alone) {
        // The others wait for it, also where there is nothing to tell.
        HVD_TRY_STATUS(store.put(
            options_.prefix + "ways/" + std::to_string(options_.rank),
            encode(Ways{.ways = ways_, .failure = scouted ? "" : scouted.error().message})));
    }
    HVD_TRY_STATUS(std::move(scouted));
    keep_listeners_on_ways();
    return ok();
}

Status MeshBuilder::scout() {
    std::vector<int> others;
    for (int rank = 0; rank < options_.size; ++rank) {
        if (rank != options_.rank && scouts_[static_cast<std::size_t>(rank)] == rank) {
            others.push_back(rank);
        }
    }
    for (const int rank : others) {
        if (rank < options_.rank) {
            HVD_TRY_STATUS(call(rank, purpose_with(rank)));
        }
    }
    is_scouting_ = true;
    HVD_TRY_STATUS(connect_awaited());
    is_scouting_ = false;
    for (const int rank : others) {
        const int descriptor = socket(rank, purpose_with(rank)).get();
        HVD_TRY(const auto here, own_end(descriptor));
        HVD_TRY(const auto there, far_end(descriptor));
        socket(rank, Purpose::probe).reset();
        ways_.push_back({.scout = rank, .here = here, .there = there});
    }
    // Among themselves the ranks of a host need no search.
    if (const auto nearest = candidates(own_, addresses_, own_); !nearest.empty()) {
        const auto& ip = nearest.front().at.ip;
        ways_.push_back({.scout = options_.rank, .here = ip, .there = ip});
    }
    return ok();
}

Status MeshBuilder::hear_from_scout(Store& store) {
    const int scout = own_scout();
    auto bytes = store.get(options_.prefix + "ways/" + std::to_string(scout), deadline_);
    if (!bytes) {
        return std::move(bytes).error().context("no word of the ways to other hosts from " +
                                                describe(scout));
    }
    HVD_TRY(auto told, decode_ways(*bytes));
    if (!told.failure.empty()) {
        return Error{Errc::unavailable, std::move(told.failure)};
    }
    ways_ = std::move(told.ways);
    return ok();
}

/// Nobody comes by the other addresses any more.
void MeshBuilder::keep_listeners_on_ways() {
    maker_->keep_listeners([this](const ListenAddress& endpoint) {
        return std::ranges::find(ways_, endpoint.at.ip, &Way::here) != ways_.end();
    });
}

const Way* MeshBuilder::way_to(int rank) const {
    const auto found =
        std::ranges::find(ways_, scouts_[static_cast<std::size_t>(rank)], &Way::scout);
    return found == ways_.end() ? nullptr : &*found;
}

/// Where to connect to the rank: by the way to its host, or what may be worth a try before that is
/// known, or where the host is seen by another address than its own (behind NAT).
std::vector<ListenAddress> MeshBuilder::ways_to(int rank) const {
    const auto& record = records_[static_cast<std::size_t>(rank)];
    if (const Way* way = way_to(rank)) {
        for (const auto& endpoint : record.endpoints) {
            if (endpoint.at.ip == way->there) {
                return {endpoint};
            }
        }
    }
    return candidates(own_, addresses_, record);
}

std::vector<HostRoute> MeshBuilder::host_routes() const {
    std::vector<HostRoute> all;
    for (const auto& way : ways_) {
        if (way.scout == own_scout()) {
            continue;
        }
        const auto here = std::ranges::find(addresses_, way.here, &HostAddress::ip);
        all.push_back({.host = records_[static_cast<std::size_t>(way.scout)].host,
                       .here = here == addresses_.end()
                                   ? HostAddress{.interface = {}, .ip = way.here}
                                   : *here,
                       .there = way.there,
                       .is_told_here = own_scout() < way.scout});
    }
    return all;
}

}  // namespace hvd::coll::net
