// SPDX-License-Identifier: Apache-2.0
#include "launcher/host_starters.hpp"

#include "collectives/base/assert.hpp"
#include "collectives/base/env.hpp"
#include "launcher/say.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

namespace hvd::launch {
namespace {

SshOptions ssh_options(const RemoteRequest& remote, const Say& say) {
    SshOptions options{.identity = remote.identity,
                       .port = remote.port,
                       .wrap = remote.wrap,
                       .concurrency = remote.concurrency,
                       .note = [say](const std::string& host, const std::string& sentence) {
                           say(host + ": " + sentence);
                       }};
    if (!remote.shell.empty()) {
        options.remote_shell = remote.shell;
    }
    return options;
}

}  // namespace

StarterContext starter_context(const sigset_t& signal_mask,
                               std::chrono::milliseconds start_timeout) {
    std::error_code unknown;  // leaves the path empty, which the starter's error then shows
    StarterContext context{.program = std::filesystem::read_symlink("/proc/self/exe", unknown),
                           .agent = {},
                           .signal_mask = signal_mask,
                           .start_timeout = start_timeout,
                           .say = say_on_stderr};
    if (auto agent = read_env("HOROVOD_AGENT"); agent && !agent->empty()) {
        context.agent = std::move(*agent);
    }
    return context;
}

Result<std::vector<PlacedHost>> choose_hosts(const LaunchRequest& request) {
    const auto& hosts = request.hosts;
    // Without a host nothing needs to be compared with this machine's names.
    const auto machine = hosts.empty() ? ThisMachine{} : this_machine();
    HVD_TRY(auto placed, place_hosts(hosts, machine));
    if (request.mpi.is_jsrun && std::ranges::none_of(placed, &PlacedHost::is_here)) {
        placed.push_back({.host = {.name = machine.hostname, .slots = 0}, .is_here = true});
    }
    return placed;
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

std::vector<AgentWay> HostStarters::ways() const {
    std::vector<AgentWay> ways;
    for (const auto& placed : hosts_) {
        ways.push_back({.host = placed.host.name, .way = starter_of(placed).way_to(placed.host)});
    }
    return ways;
}

Result<std::unique_ptr<HostStarters>> make_host_starters(IoThread& io,
                                                         const RemoteRequest& remote,
                                                         const std::vector<PlacedHost>& placed,
                                                         const StarterContext& context,
                                                         EarlyAgentPtr early_agent,
                                                         std::unique_ptr<Starter> far) {
    if (!far && !std::ranges::all_of(placed, &PlacedHost::is_here)) {
        auto options = ssh_options(remote, context.say);
        options.hosts = placed.size() - static_cast<std::size_t>(
                                            std::ranges::count_if(placed, &PlacedHost::is_here));
        HVD_TRY(far, make_ssh_starter(io, context, std::move(options)));
    }
    return std::make_unique<HostStarters>(
        placed, make_local_starter(io, context, std::move(early_agent)), std::move(far));
}

}  // namespace hvd::launch
