// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/wall_clock.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/wire/frames.hpp"
#include "tests/sim/world.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

namespace hvd::sim {
namespace {

/// As the agent has it.
constexpr auto kAbandonedGrace = std::chrono::milliseconds(500);

constexpr auto kGuardTime = Duration(10);  // until it has killed what its agent left

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string mark_of(std::size_t host) {
    return "mark" + std::to_string(host);
}

}  // namespace

SimHost::SimHost(World& world, std::size_t index) : world_(world), index_(index) {}

std::int64_t SimHost::clock_ns() const {
    const auto ahead = world_.script().hosts[index_].clock_ahead;
    return std::chrono::nanoseconds(world_.now().time_since_epoch() + ahead).count();
}

// ---- the link ----

/// Messages take time, and none overtakes another.
TimePoint SimHost::arrival(TimePoint& last) {
    const auto least = world_.script().hosts[index_].latency;
    last = std::max(last, world_.now() + world_.some_latency(least));
    return last;
}

void SimHost::begin_link(launch::AgentChannel::Handlers handlers) {
    handlers_ = std::move(handlers);
    world_.shake_hands(index_);
}

void SimHost::introduce() {
    if (world_.script().hosts[index_].fault == HostFault::never_links) {
        return;
    }
    has_agent_ = true;
    auto greeting = bytes_of(wire::kMagic);
    if (world_.script().hosts[index_].fault == HostFault::speaks_another_version) {
        greeting.back() = std::byte{'0'};
    }
    tell_bytes(std::move(greeting));
    tell(wire::Hello{.build_id = world_.script().hosts[index_].build, .pid = 1});
    launch::HostFacts facts;
    facts.hostname = "h" + std::to_string(index_);
    facts.mark = mark_of(index_);
    tell(wire::Facts{.facts = std::move(facts)});
    if (world_.script().hosts[index_].fault_at < Duration(0) &&
        !world_.script().hosts[index_].fault_instead_of) {
        world_.in(Duration(5), [this] { fail(); });
    }
}

void SimHost::tell(const wire::FromAgent& message, std::optional<std::size_t> fault) {
    if (is_cut_ || !has_agent_) {
        return;
    }
    tell_bytes(wire::encode(message), fault);
}

void SimHost::tell_bytes(std::vector<std::byte> sent, std::optional<std::size_t> fault) {
    world_.time.add(arrival(last_to_launcher_),
                    [this, bytes = std::move(sent), fault, is_heeded = !is_refused_] {
                        if (is_cut_ || is_over_ || !handlers_.on_bytes) {
                            return;
                        }
                        if (is_heeded && fault) {
                            world_.faults[*fault].is_told = true;
                        }
                        handlers_.on_bytes(bytes);
                    });
}

void SimHost::end_stream(std::optional<Error> error) {
    if (is_cut_) {
        return;
    }
    world_.time.add(arrival(last_to_launcher_), [this, error = std::move(error)] {
        if (!is_cut_ && !std::exchange(is_over_, true) && handlers_.on_end) {
            handlers_.on_end(error);
        }
    });
}

void SimHost::deliver(std::vector<std::byte> bytes) {
    if (is_cut_) {
        return;
    }
    world_.time.add(arrival(last_to_agent_), [this, bytes = std::move(bytes)] {
        if (!is_cut_ && has_agent_) {
            hear(bytes);
        }
    });
}

void SimHost::hang_up() {
    if (is_cut_) {
        return;
    }
    world_.time.add(arrival(last_to_agent_), [this] {
        if (!is_cut_ && has_agent_) {
            launcher_gone();
        }
    });
}

void SimHost::fail() {
    const auto fault = world_.script().hosts[index_].fault;
    if (is_over_ || is_cut_ || !has_agent_ || fault == HostFault::none) {
        return;
    }
    const bool is_drained = fault == HostFault::is_drained;
    if (is_drained && ending_.is_wanted()) {
        return;  // horovodrun has asked for its end before
    }
    const bool has_ranks_left = std::ranges::any_of(
        world_.ranks, [this](const SimRank& rank) { return rank.host == index_ && rank.lives; });
    if (has_ranks_left || !started_at_) {
        world_.log_fault({.at = world_.now(),
                          .host = index_,
                          .rank = {},
                          .is_silent = fault == HostFault::falls_silent,
                          .is_dated = is_drained && started_at_,
                          .is_told = true});
    }
    if (is_drained) {
        leave();
        return;
    }
    if (fault == HostFault::sends_garbage || fault == HostFault::names_unknown_rank) {
        misbehave(fault);
        return;
    }
    if (fault == HostFault::agent_dies) {
        end_stream(Error{Errc::unavailable, "its agent was killed"});
        has_agent_ = false;
        world_.in(kGuardTime, [this] {
            for (auto& rank : world_.ranks) {
                if (rank.host == index_) {
                    world_.kill(rank);
                }
            }
        });
        return;
    }
    if (fault == HostFault::closes) {
        end_stream(Error{Errc::unavailable, "the connection was closed"});
        world_.in(Duration(1), [this] { launcher_gone(); });
        return;
    }
    is_cut_ = true;
    world_.is_missed(-1, index_, true, world_.script().link_silence);
}

/// Sends as a faulty agent does, or another program that writes to its stream.
void SimHost::misbehave(HostFault fault) {
    constexpr int kUnknownRank = 4711;
    if (fault == HostFault::names_unknown_rank) {
        tell(wire::Started{.rank = kUnknownRank, .pid = 1, .time_ns = clock_ns()});
        is_refused_ = true;
        return;
    }
    auto frame = wire::encode(wire::Note{.text = "cut off"});
    frame.resize(frame.size() / 2);
    tell_bytes(std::move(frame));
    tell_bytes(bytes_of("perl: warning: Setting locale failed.\n"));
    is_refused_ = true;
}

// ---- the agent ----

void SimHost::hear(const std::vector<std::byte>& bytes) {
    wire::FrameReader<wire::ToAgent> reader;  // one for each delivery: it keeps nothing
    if (std::exchange(has_greeted_, true)) {
        reader.feed(std::as_bytes(std::span(wire::kMagic)));
    }
    reader.feed(bytes);
    lease_.heard(world_.now());
    while (true) {
        auto message = reader.next();
        if (!message || !*message) {
            return;
        }
        std::visit([this](const auto& event) { on(event); }, **message);
    }
}

void SimHost::on(const wire::Start& start) {
    started_at_ = world_.now();
    const auto& script = world_.script().hosts[index_];
    if (script.fault != HostFault::none && script.fault_at >= Duration(0) &&
        !script.fault_instead_of) {
        world_.in(script.fault_at, [this] { fail(); });
    }
    for (const auto& spec : start.plan.ranks) {
        world_.start_rank(spec.rank);
    }
    rank_ended();  // if none could be started
}

bool SimHost::fails_instead_of(Question question) {
    if (world_.script().hosts[index_].fault_instead_of != question) {
        return false;
    }
    fail();
    return true;
}

void SimHost::on(const wire::Seek& seek) {
    if (fails_instead_of(Question::seek)) {
        return;
    }
    const auto twin = world_.script().hosts[index_].twin;
    wire::Found found;
    std::ranges::copy_if(seek.marks, std::back_inserter(found.marks),
                         [&](const std::string& mark) { return twin && mark == mark_of(*twin); });
    tell(found);
}

void SimHost::on(const wire::PickPort& /*wanted*/) {
    if (!fails_instead_of(Question::pick_port)) {
        tell(wire::PortPicked{.port = world_.script().free_port});
    }
}

void SimHost::on(const wire::Check& /*check*/) {
    if (fails_instead_of(Question::check)) {
        return;
    }
    wire::Checked checked{.problems = {}, .wall_ns = wall_clock_ns()};
    if (const auto& problem = world_.script().hosts[index_].problem; !problem.empty()) {
        checked.problems.push_back({.exit_code = launch::kExitNotFound, .text = problem});
    }
    tell(checked);
}

void SimHost::on(const wire::Signal& signal) {
    for (auto& rank : world_.ranks) {
        if (rank.host == index_ && rank.lives) {
            rank.is_killed_by_launcher = rank.is_killed_by_launcher || signal.number == SIGTERM;
            world_.term(rank);
        }
    }
}

void SimHost::on(const wire::Stop& stop) {
    perform(ending_.stop(Duration(stop.grace_ms), world_.now()));
}

void SimHost::on(const wire::Ping& ping) {
    lease_.renew(Duration(ping.lease_ms), world_.now());
    if (const auto end = lease_.end()) {
        world_.time.add(*end, [this] { check_lease(); });
    }
    tell(wire::Pong{.asked_ns = ping.asked_ns, .heard_ns = clock_ns(), .answered_ns = clock_ns()});
}

void SimHost::check_lease() {
    if (!lease_.is_over(world_.now())) {
        if (const auto end = lease_.end()) {
            world_.time.add(*end, [this] { check_lease(); });
        }
        return;
    }
    launcher_gone();
}

void SimHost::launcher_gone() {
    if (!started_at_) {
        end_stream({});
        has_agent_ = false;
        return;
    }
    perform(ending_.stop(kAbandonedGrace, world_.now()));
}

/// As an agent does at a signal that asks for its end.
void SimHost::leave() {
    if (!started_at_) {
        end_stream({});
        has_agent_ = false;
        return;
    }
    tell(wire::Leaving{.time_ns = clock_ns(), .signal = SIGTERM, .why = "the agent got SIGTERM"});
    perform(ending_.stop(world_.script().grace, world_.now()));
}

void SimHost::perform(Termination::Action action) {
    for (auto& rank : world_.ranks) {
        if (rank.host != index_ || !rank.lives || action == Termination::Action::none ||
            action == Termination::Action::give_up) {
            continue;
        }
        if (action == Termination::Action::kill) {
            if (world_.policy().has_kill) {
                rank.is_killed_by_launcher = true;
                world_.kill(rank);
            }
        } else {
            rank.is_killed_by_launcher = true;
            world_.term(rank);
        }
    }
    if (action == Termination::Action::give_up) {
        wire::AllGone gone;
        for (const auto& rank : world_.ranks) {
            if (rank.host == index_ && rank.lives) {
                gone.survivors.push_back(
                    {.pid = 1000 + rank.number, .state = "D", .wchan = "nfs_wait"});
            }
        }
        tell(gone);
        end_stream({});
        has_agent_ = false;
    }
    if (const auto deadline = ending_.deadline(); deadline && has_agent_) {
        world_.time.add(*deadline, [this] { tick(); });
    }
}

void SimHost::tick() {
    if (has_agent_) {
        const auto action = ending_.time_passed(world_.now());
        if (action != Termination::Action::none) {
            perform(action);
        }
    }
}

void SimHost::rank_ended() {
    const bool is_any_left = std::ranges::any_of(
        world_.ranks, [this](const SimRank& rank) { return rank.host == index_ && rank.lives; });
    if (!is_any_left && started_at_ && has_agent_) {
        tell(wire::AllGone{});
        end_stream({});
        has_agent_ = false;
    }
}

}  // namespace hvd::sim
