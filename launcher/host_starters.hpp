// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/hosts/this_machine.hpp"
#include "launcher/plan/print.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/remote/starter.hpp"

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {

/// What starters need of this process.
[[nodiscard]] StarterContext starter_context(const sigset_t& signal_mask,
                                             std::chrono::milliseconds start_timeout);

/// Tells which of the request's hosts are this machine. For --jsrun this machine is one in any
/// case, the last and without slots: jsrun has to be started here. Errors: as of place_hosts.
[[nodiscard]] Result<std::vector<PlacedHost>> choose_hosts(const LaunchRequest& request);

[[nodiscard]] std::vector<Host> hosts_of(const std::vector<PlacedHost>& placed);

/// The starters of a job's hosts as one: each host gets the one that its place asks for. Thread:
/// io.
class HostStarters final : public Starter {
public:
    /// `remote` may be null where every host is here.
    HostStarters(std::vector<PlacedHost> hosts,
                 std::unique_ptr<Starter> local,
                 std::unique_ptr<Starter> remote);

    [[nodiscard]] std::string_view name() const noexcept override { return "mixed"; }
    [[nodiscard]] Result<std::unique_ptr<AgentChannel>> start(const Host& host) override;

    void say_through(const std::function<void(const std::string&)>& say) override;

    /// The name of the starter of each host, in their order.
    [[nodiscard]] std::vector<std::string> names() const;

    /// For people: how the agent of each host was started.
    [[nodiscard]] std::vector<AgentWay> ways() const;

private:
    [[nodiscard]] Starter& starter_of(const PlacedHost& placed) const noexcept;

    std::vector<PlacedHost> hosts_;
    std::unique_ptr<Starter> local_;
    std::unique_ptr<Starter> remote_;
};

/// `far` is for the hosts that are not here, if there is one; else they are reached by SSH. Errors:
/// as of make_ssh_starter. What people should know of a host, such as its banner, goes to
/// `context.say`.
[[nodiscard]] Result<std::unique_ptr<HostStarters>> make_host_starters(
    IoThread& io,
    const RemoteRequest& remote,
    const std::vector<PlacedHost>& placed,
    const StarterContext& context,
    EarlyAgentPtr early_agent,
    std::unique_ptr<Starter> far = nullptr);

}  // namespace hvd::launch
