// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_starters.hpp"

#include "collectives/base/assert.hpp"
#include "launcher/output/write_all.hpp"

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace hvd::launch {
namespace {

SshOptions ssh_options(const RemoteRequest& remote) {
    SshOptions options{.identity = remote.identity,
                       .port = remote.port,
                       .wrap = remote.wrap,
                       .concurrency = remote.concurrency,
                       .note = [](const std::string& host, const std::string& sentence) {
                           (void)write_all(STDERR_FILENO,
                                           "horovodrun: " + host + ": " + sentence + "\n");
                       }};
    if (!remote.shell.empty()) {
        options.remote_shell = remote.shell;
    }
    return options;
}

}  // namespace

HostStarters::HostStarters(std::vector<PlacedHost> hosts,
                           std::unique_ptr<Starter> local,
                           std::unique_ptr<Starter> remote)
    : hosts_(std::move(hosts)), local_(std::move(local)), remote_(std::move(remote)) {}

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

Result<std::unique_ptr<HostStarters>> make_host_starters(IoThread& io,
                                                         const RemoteRequest& remote,
                                                         const std::vector<PlacedHost>& placed,
                                                         const StarterContext& context,
                                                         EarlyAgentPtr early_agent) {
    std::unique_ptr<Starter> far;
    if (!std::ranges::all_of(placed, &PlacedHost::is_here)) {
        HVD_TRY(far, make_ssh_starter(io, context, ssh_options(remote)));
    }
    return std::make_unique<HostStarters>(
        placed, make_local_starter(io, context, std::move(early_agent)), std::move(far));
}

}  // namespace hvd::launch
