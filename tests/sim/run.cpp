// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/run.hpp"

#include "launcher/fleet/agent_fleet.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/output/writer_thread.hpp"
#include "launcher/supervise/job_runner.hpp"
#include "launcher/supervise/job_signals.hpp"
#include "launcher/supervise/job_start.hpp"
#include "tests/sim/verify.hpp"
#include "tests/sim/world.hpp"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <stdexcept>
#include <utility>

namespace hvd::sim {
namespace {

/// Longer than any simulated job may last.
constexpr auto kWatchdog = std::chrono::minutes(10);

/// Keeps what is for the console.
class Memory final : public launch::Sink {
public:
    explicit Memory(std::string& text) : text_(text) {}
    void take(const launch::Chunk& chunk) override { text_ += chunk.text(); }
    void flush() override {}

private:
    std::string& text_;
};

struct Hang : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void forget_signals() {
    sigset_t stop{};
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGINT);
    const timespec now{};
    while (::sigtimedwait(&stop, nullptr, &now) > 0) {
    }
}

launch::LaunchRequest request_for(const Script& script, const Policy& policy) {
    launch::LaunchRequest request;
    request.limits = {.start_timeout = script.start_timeout,
                      .grace = script.grace,
                      .lease = policy.has_lease ? script.lease : Duration(0),
                      .on_failure = script.on_failure};
    return request;
}

std::vector<launch::Host> hosts_of(const launch::LaunchPlan& plan) {
    std::vector<launch::Host> hosts;
    for (const auto& host : plan.hosts) {
        const auto slots = static_cast<int>(host.ranks.size());
        hosts.push_back({.name = host.host, .slots = slots, .user = {}, .port = {}});
    }
    return hosts;
}

/// As Launch does: from the hosts to a plan that they can run.
Status prepare(World& world,
               launch::JobStart& start,
               const launch::LaunchPlan& plan,
               std::vector<launch::PlanHost>& planned) {
    const auto hosts = hosts_of(plan);
    HVD_TRY(auto facts, start.link(world, hosts));
    if (world.script().interrupted_at) {
        world.in(*world.script().interrupted_at, [] { (void)::raise(SIGINT); });
    }
    for (std::size_t host = 0; host < hosts.size(); ++host) {
        planned.push_back({.host = hosts[host],
                           .starter = std::string(world.name()),
                           .facts = std::move(facts[host])});
    }
    HVD_TRY_STATUS(start.settle(planned, world.script().ports));
    return start.check(plan);
}

/// The launcher's whole life; when this returns its process has ended.
void supervise(World& world, const launch::LaunchPlan& plan, Outcome& outcome) {
    static const launch::BlockedSignals signals;
    forget_signals();
    launch::IoThread io(world.time);
    const auto request = request_for(world.script(), world.policy());
    launch::AgentFleet fleet(io, kBuildId, request.limits.lease);
    const auto start_deadline = io.in(request.limits.start_timeout);
    launch::JobSignals stop_requests(io, signals, fleet);
    launch::JobStart start(io, fleet, stop_requests, start_deadline, nullptr);
    const auto prepared = prepare(world, start, plan, outcome.hosts);
    if (!prepared) {
        outcome.start = start.give_up(prepared.error());
        outcome.start_words = outcome.start->words;
        outcome.start_error = outcome.start_words.back();
        outcome.start_words.pop_back();
        return;
    }
    if (world.script().starter_speaks_at) {
        world.in(*world.script().starter_speaks_at, [&world] { world.speak("srun: beware"); });
    }
    launch::JobRunner runner(io, fleet, stop_requests, request, {.console = [&outcome] {
                                 return std::make_unique<Memory>(outcome.said);
                             }});
    auto supervised = runner.run(plan, start.finish());
    if (!supervised) {
        outcome.complaints.push_back("it did not run: " + supervised.error().message);
        return;
    }
    outcome.result = std::move(supervised->result);
}

std::chrono::milliseconds since_begin(TimePoint time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
}

}  // namespace

launch::LaunchPlan plan_of(const Script& script) {
    launch::LaunchPlan plan;
    plan.mode = "native";
    plan.job.id = "0123456789abcdef0123456789abcdef";
    for (const auto& host : script.hosts) {
        auto& made = plan.hosts.emplace_back();
        made.host = "h" + std::to_string(plan.hosts.size() - 1);
        made.grace = script.grace;
        for (std::size_t local = 0; local < host.ranks.size(); ++local) {
            auto& spec = made.ranks.emplace_back();
            spec.rank = plan.np++;
            spec.local_rank = static_cast<int>(local);
            spec.argv = {"x"};
        }
    }
    return plan;
}

Outcome run(const Script& script, Policy policy) {
    return run(script, plan_of(script), policy);
}

Outcome run(const Script& script, const launch::LaunchPlan& plan, Policy policy) {
    Outcome outcome;
    World world(script, policy);
    bool is_watching = true;
    world.in(kWatchdog, [&is_watching] {
        if (is_watching) {
            throw Hang("the launcher still waits after ten minutes");
        }
    });
    try {
        supervise(world, plan, outcome);
    } catch (const Hang& hang) {
        outcome.complaints.emplace_back(hang.what());
    }
    is_watching = false;
    const auto ended_at = world.now();
    outcome.lasted = since_begin(ended_at);
    for (const auto& host : world.hosts) {
        if (host->started_at()) {
            outcome.last_start = std::max(outcome.last_start, since_begin(*host->started_at()));
        }
    }
    // The launcher is gone: what the hosts do without it is theirs. A natural end excuses nobody.
    world.end_of_launcher = ended_at;
    while (world.now() < ended_at + kWatchdog && world.time.advance()) {
    }
    verify(world, outcome);
    return outcome;
}

}  // namespace hvd::sim
