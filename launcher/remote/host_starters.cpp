// SPDX-License-Identifier: Apache-2.0
#include "launcher/remote/host_starters.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/env.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

namespace hvd::launch {
StarterContext program_context() {
    std::error_code unknown;  // leaves the path empty, which the starter's error then shows
    StarterContext context;
    context.program = std::filesystem::read_symlink("/proc/self/exe", unknown);
    if (auto agent = read_env("HOROVOD_AGENT"); agent && !agent->empty()) {
        context.agent = std::move(*agent);
    }
    return context;
}

StarterContext starter_context(const BlockedSignals& signals,
                               const Limits& limits,
                               const Say& say) {
    auto context = program_context();
    context.signal_mask = signals.original_mask();
    context.start_timeout = limits.start_timeout;
    context.say = say;
    return context;
}

std::vector<Host> hosts_of(const std::vector<PlacedHost>& placed) {
    std::vector<Host> hosts;
    std::ranges::transform(placed, std::back_inserter(hosts), &PlacedHost::host);
    return hosts;
}

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

void HostStarters::say_through(const std::function<void(const std::string&)>& say) {
    if (remote_) {
        remote_->say_through(say);
    }
}

std::vector<std::string> HostStarters::names() const {
    std::vector<std::string> names;
    for (const auto& placed : hosts_) {
        names.emplace_back(starter_of(placed).name());
    }
    return names;
}

std::vector<PlanHost> HostStarters::with_facts(std::vector<HostFacts> facts) const {
    std::vector<PlanHost> hosts;
    hosts.reserve(hosts_.size());
    for (std::size_t index = 0; index < hosts_.size(); ++index) {
        hosts.push_back({.host = hosts_[index].host,
                         .starter = std::string(starter_of(hosts_[index]).name()),
                         .facts = std::move(facts[index])});
    }
    return hosts;
}

std::vector<AgentWay> HostStarters::ways() const {
    std::vector<AgentWay> ways;
    for (const auto& placed : hosts_) {
        ways.push_back({.host = placed.host.name, .way = starter_of(placed).way_to(placed.host)});
    }
    return ways;
}

Result<std::unique_ptr<HostStarters>> make_host_starters(IoThread& io,
                                                         const SshOptions& ssh,
                                                         const StarterContext& context,
                                                         Gathered& gathered) {
    const auto& placed = gathered.placed;
    auto far = std::move(gathered.starter);
    if (!far && !std::ranges::all_of(placed, &PlacedHost::is_here)) {
        const auto note = [say = context.say](const std::string& host, const std::string& words) {
            say(host + ": " + words);
        };
        const auto hosts = placed.size() - static_cast<std::size_t>(
                                               std::ranges::count_if(placed, &PlacedHost::is_here));
        auto made = make_ssh_starter(io, context, {.options = ssh, .hosts = hosts, .note = note});
        if (!made) {  // never the fault of the command line
            return Error{Errc::unavailable, made.error().message};
        }
        far = std::move(*made);
    }
    return std::make_unique<HostStarters>(placed, make_local_starter(io, context), std::move(far));
}

}  // namespace hvd::launch
