// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/hosts/this_machine.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/net/signals.hpp"
#include "launcher/output/say.hpp"
#include "launcher/plan/planner.hpp"
#include "launcher/plan/print.hpp"
#include "launcher/remote/factory.hpp"
#include "launcher/remote/gathered.hpp"
#include "launcher/remote/starter.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::launch {

/// The files of this process alone: its program and the agent.
[[nodiscard]] StarterContext program_context();

/// The same with all else that starters need of this process.
[[nodiscard]] StarterContext starter_context(const BlockedSignals& signals,
                                             const Limits& limits,
                                             const Say& say = say_on_stderr);

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

    /// The hosts as the planner takes them; `facts` are in their order.
    [[nodiscard]] std::vector<PlanHost> with_facts(std::vector<HostFacts> facts) const;

    /// For people: how the agent of each host was started.
    [[nodiscard]] std::vector<AgentWay> ways() const;

private:
    [[nodiscard]] Starter& starter_of(const PlacedHost& placed) const noexcept;

    std::vector<PlacedHost> hosts_;
    std::unique_ptr<Starter> local_;
    std::unique_ptr<Starter> remote_;
};

/// Takes the starter of `gathered` for the hosts that are not here, if there is one; else they are
/// reached by SSH. Errors: unavailable, as of make_ssh_starter. Messages about a host, such as
/// its banner, go to `context.say`.
[[nodiscard]] Result<std::unique_ptr<HostStarters>> make_host_starters(
    IoThread& io,
    const SshOptions& ssh,
    const StarterContext& context,
    Gathered& gathered);

}  // namespace hvd::launch
