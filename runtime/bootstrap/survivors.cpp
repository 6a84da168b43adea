// SPDX-License-Identifier: Apache-2.0
#include "runtime/bootstrap/survivors.hpp"

#include "runtime/bootstrap/arrange.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace hvd::rt {

Status leave_out_lost_ranks(WorldPlace& place, const EngineConfig& config, Deadline deadline) {
    if (!place.reduced_world) {
        return ok();
    }
    const auto entered = place.agent->enter_world(*place.reduced_world, deadline);
    if (!entered && entered.error().code == Errc::timed_out) {
        return Error{Errc::timed_out,
                     "a rank that lives has not called hvd.init() again: a world without the ranks "
                     "that have ended waits for all others"};
    }
    HVD_TRY(const auto& members, entered);
    const auto own = std::ranges::find(members, place.topology.rank, &coll::WorldMember::rank);
    if (own == members.end()) {
        return Error{Errc::internal, "the launcher has made a world without this rank"};
    }
    const auto size = static_cast<int>(members.size());
    if (size == place.topology.size) {
        return ok();
    }
    if (config.cpu_operations == CpuOperations::mpi) {
        return Error{
            Errc::unsupported,
            "HOROVOD_CPU_OPERATIONS=mpi: MPI does not go on without ranks that have ended"};
    }
    std::vector<coll::store::Member> membership;
    for (const auto& member : members) {
        coll::store::Member& added = membership.emplace_back();
        added.rank = static_cast<int>(membership.size()) - 1;
        added.size = size;
        added.node = std::to_string(member.host);
    }
    HVD_TRY(place.topology, arrange(membership, static_cast<int>(own - members.begin())));
    place.needs_tcp =
        place.topology.local_size != size || config.cpu_operations == CpuOperations::tcp;
    return ok();
}

}  // namespace hvd::rt
