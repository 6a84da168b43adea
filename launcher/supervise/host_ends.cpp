// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/host_ends.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd::launch {

HostEnds::HostEnds(IoThread& io,
                   AgentFleet& fleet,
                   const LaunchPlan& plan,
                   std::function<void()> swept)
    : fleet_(fleet),
      plan_(plan),
      is_done_(fleet.size()),
      sweeper_(io, fleet.starter(), std::move(swept)) {}

bool HostEnds::are_all_done() const {
    return std::ranges::all_of(is_done_, [](bool done) { return done; });
}

void HostEnds::done(std::size_t host, const std::vector<Survivor>& survivors) {
    is_done_[host] = true;
    for (const auto& survivor : survivors) {
        survivors_.push_back({.host = fleet_.name(host), .process = survivor});
    }
}

void HostEnds::sweep(std::size_t host, std::chrono::seconds patience) {
    if (!plan_.hosts[host].ranks.empty()) {
        sweeper_.sweep(fleet_.host(host), plan_.job.id, patience);
    }
}

std::vector<HostSurvivor> HostEnds::take_survivors() {
    auto all = std::exchange(survivors_, {});
    std::ranges::move(sweeper_.take_survivors(), std::back_inserter(all));
    return all;
}

}  // namespace hvd::launch
