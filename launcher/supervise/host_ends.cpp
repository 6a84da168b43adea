// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/host_ends.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace hvd::launch {

HostEnds::HostEnds(IoThread& io,
                   AgentFleet& fleet,
                   const LaunchPlan& plan,
                   std::function<void()> cleaned)
    : fleet_(fleet),
      plan_(plan),
      is_done_(fleet.size()),
      cleanup_(io, fleet.starter(), std::move(cleaned)) {}

bool HostEnds::are_all_done() const {
    return std::ranges::all_of(is_done_, [](bool done) { return done; });
}

void HostEnds::done(std::size_t host, const std::vector<Survivor>& survivors) {
    is_done_[host] = true;
    for (const auto& survivor : survivors) {
        survivors_.push_back({.host = fleet_.name(host), .process = survivor});
    }
}

void HostEnds::clean_up(std::size_t host, std::chrono::seconds timeout) {
    if (!plan_.hosts[host].ranks.empty()) {
        cleanup_.clean_up(fleet_.host(host), plan_.job.id, timeout);
    }
}

std::vector<HostSurvivor> HostEnds::take_survivors() {
    auto all = std::exchange(survivors_, {});
    std::ranges::move(cleanup_.take_survivors(), std::back_inserter(all));
    return all;
}

}  // namespace hvd::launch
