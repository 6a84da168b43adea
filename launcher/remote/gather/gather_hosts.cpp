// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/gather/gather_hosts.hpp"

#include "launcher/hosts/this_machine.hpp"
#include "launcher/remote/join/join_hosts.hpp"
#include "launcher/remote/slurm/slurm_hosts.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {

Result<std::vector<PlacedHost>> choose_hosts(const LaunchRequest& request) {
    const auto& hosts = request.hosts.list;
    // Without a host nothing needs to be compared with this machine's names.
    const auto machine = hosts.empty() ? ThisMachine{} : this_machine();
    HVD_TRY(auto placed, place_hosts(hosts, machine));
    if (request.mpi.is_jsrun && std::ranges::none_of(placed, &PlacedHost::is_here)) {
        placed.push_back({.host = {.name = machine.hostname, .slots = 0}, .is_here = true});
    }
    return placed;
}

Result<Gathered> gather_hosts(IoThread& io,
                              const BlockedSignals& signals,
                              const LaunchRequest& request,
                              Deadline deadline,
                              int& stop_signal,
                              const Say& say) {
    HVD_TRY(auto placed, choose_hosts(request));
    if (request.hosts.slurm_job) {
        return gather_slurm_nodes(io, signals, request, deadline, stop_signal, {.say = say});
    }
    if (request.hosts.listen) {
        return gather_joined_hosts(io, signals, request, placed,
                                   {.deadline = deadline, .say = say, .stop_signal = stop_signal});
    }
    return Gathered{.placed = std::move(placed)};
}

}  // namespace hvd::launch
