// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_starters.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <utility>

namespace hvd::launch {

HostStarters::HostStarters(const std::vector<PlacedHost>& hosts,
                           std::unique_ptr<Starter> local,
                           std::unique_ptr<Starter> remote)
    : hosts_(hosts), local_(std::move(local)), remote_(std::move(remote)) {}

Starter& HostStarters::starter_of(const PlacedHost& placed) const noexcept {
    return placed.is_here ? *local_ : *remote_;
}

Result<std::unique_ptr<AgentChannel>> HostStarters::start(const Host& host) {
    const auto placed = std::ranges::find(hosts_, host, &PlacedHost::host);
    HVD_ASSERT(placed != hosts_.end(), "a host of this job");
    return starter_of(*placed).start(host);
}

std::vector<std::string> HostStarters::names() const {
    std::vector<std::string> names;
    for (const auto& placed : hosts_) {
        names.emplace_back(starter_of(placed).name());
    }
    return names;
}

}  // namespace hvd::launch
