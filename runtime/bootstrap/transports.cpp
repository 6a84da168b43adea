// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/transports.hpp"

#include "collectives/selector/selector.hpp"
#include "collectives/transport/tcp/gather.hpp"
#include "runtime/control/shm_channel.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

namespace hvd::rt {
namespace {

// All ranks have connected by then, so that nothing but a fault takes longer.
constexpr std::chrono::seconds kGroupLimit{10};

// Flags by which each rank describes itself to all others.
constexpr std::byte kShares{1};        // it has the memory of its host's group, or MPI in its place
constexpr std::byte kSumsByRank{2};    // it wants sums in rank order
constexpr std::byte kHierarchical{4};  // it wants NCCL inside of hosts alone

std::size_t index_of(int rank) noexcept {
    return static_cast<std::size_t>(rank);
}

/// The world's ranks on one host, ascending.
std::vector<int> ranks_of_host(const std::vector<int>& leaders, int leader) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < leaders.size(); ++rank) {
        if (leaders[rank] == leader) {
            ranks.push_back(static_cast<int>(rank));
        }
    }
    return ranks;
}

/// The group of `ranks`, of which this rank is one.
Result<std::unique_ptr<coll::LocalGroup>> form_group(const WorldPlace& place,
                                                     const std::vector<int>& ranks,
                                                     Deadline deadline) {
    const auto size = static_cast<int>(ranks.size());
    const bool is_whole_world = size == place.topology.size;
    coll::LocalGroupOptions options{
        .rank = static_cast<int>(std::ranges::find(ranks, place.topology.rank) - ranks.begin()),
        .size = size,
        .name = place.group_name,
        .launcher = place.launcher,
        .world_ranks = ranks,
        .segments = {is_whole_world ? ShmChannel::segment_bytes(size) : 0,
                     coll::local_segment_bytes(place.topology)},
        .failures = place.agent.get()};
    if (place.key) {
        const auto key = coll::derive_key(*place.key, "key of the local group of " + place.host_id);
        options.key.assign(key.begin(), key.end());
        options.name = "horovod/" +
                       coll::derive_name(*place.key, "name of the local group of " + place.host_id);
    }
    return coll::LocalGroup::form(options, deadline);
}

Deadline earlier(Deadline a, Deadline b) {
    return b.is_never() || (!a.is_never() && *a.end() < *b.end()) ? a : b;
}

/// The memory that the ranks of this host share beside the mesh, and the order of sums. All ranks
/// of the world call it.
Status add_group(Transports& made,
                 const WorldPlace& place,
                 const EngineConfig& config,
                 const Logger& log,
                 Deadline deadline) {
    const bool is_wanted = config.cpu_operations == CpuOperations::automatic;
    const auto& leaders = made.mesh->host_leaders();
    const int rank = place.topology.rank;
    const auto local = ranks_of_host(leaders, leaders[index_of(rank)]);
    std::string failure = "another rank of this host could not";
    if (is_wanted && local.size() > 1) {
        auto formed = form_group(place, local, earlier(Deadline::in(kGroupLimit), deadline));
        if (formed) {
            made.group = std::move(formed).value();
        } else {
            failure = formed.error().message;
        }
    }
    const bool shares = made.group != nullptr || config.cpu_operations == CpuOperations::mpi;
    const auto own = (shares ? kShares : std::byte{}) |
                     (config.is_deterministic ? kSumsByRank : std::byte{}) |
                     (config.is_hierarchical ? kHierarchical : std::byte{});
    HVD_TRY(const auto verdicts, gather_bytes(*made.mesh, own, deadline));
    const auto says = [&](std::size_t each, std::byte what) {
        return (verdicts[each] & what) != std::byte{};
    };
    made.order = coll::SumOrder::any;
    std::vector<bool> is_shared(verdicts.size(), true);  // by leader
    for (std::size_t each = 0; each < verdicts.size(); ++each) {
        is_shared[index_of(leaders[each])] =
            is_shared[index_of(leaders[each])] && says(each, kShares);
        made.order = says(each, kSumsByRank) ? coll::SumOrder::by_rank : made.order;
        made.is_hierarchical = made.is_hierarchical || says(each, kHierarchical);
    }
    for (std::size_t each = 0; each < verdicts.size(); ++each) {
        made.hosts[each] =
            is_shared[index_of(leaders[each])] ? leaders[each] : static_cast<int>(each);
    }
    if (!is_shared[index_of(local.front())]) {
        made.group.reset();
        if (is_wanted && local.size() > 1 && local.front() == rank) {
            log.warn("the ranks of " + place.host +
                     " share no memory and use connections instead: " + failure);
        }
    }
    return ok();
}

}  // namespace

Result<Transports> connect_transports(WorldPlace& place,
                                      const EngineConfig& config,
                                      const Logger& log,
                                      Deadline deadline) {
    const auto& topology = place.topology;
    Transports made;
    made.hosts.resize(index_of(topology.size));
    if (topology.size == 1) {
        return made;
    }
    if (auto* const store = place.store()) {
        HVD_TRY(place.key, share_world_key(*store, place.prefix, topology.rank, deadline));
    }
    if (!place.needs_tcp) {
        std::vector<int> all(index_of(topology.size));
        std::iota(all.begin(), all.end(), 0);
        HVD_TRY(made.group, form_group(place, all, deadline));
        return made;
    }
    HVD_TRY(made.mesh, coll::net::Mesh::connect(*place.store(),
                                                {.rank = topology.rank,
                                                 .size = topology.size,
                                                 .host = place.host,
                                                 .prefix = place.prefix,
                                                 .host_id = place.host_id,
                                                 .key = *place.key,
                                                 .interfaces = config.interfaces,
                                                 .ports = config.ports,
                                                 .link_limit = config.start_timeout,
                                                 .lease = config.lease},
                                                deadline));
    HVD_TRY_STATUS(add_group(made, place, config, log, deadline));
    return made;
}

}  // namespace hvd::rt
