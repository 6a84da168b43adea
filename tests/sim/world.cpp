// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.hpp"

#include "collectives/base/text.hpp"
#include "launcher/wire/frames.hpp"

#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

namespace hvd::sim {
namespace {

constexpr int kExitOne = 1 << 8;
constexpr auto kTeardown = Duration(100);  // between a reported exception and the exit

class SimChannel final : public launch::AgentChannel {
public:
    explicit SimChannel(SimHost& host) : host_(host) {}
    ~SimChannel() override {
        host_.forget_launcher();
        host_.hang_up();
    }
    SimChannel(const SimChannel&) = delete;
    SimChannel& operator=(const SimChannel&) = delete;

    void open(Handlers handlers) override { host_.begin_link(std::move(handlers)); }
    void send(std::vector<std::byte> bytes) override { host_.deliver(std::move(bytes)); }
    void when_sent(std::function<void()> sent) override { sent(); }
    void close() override { host_.hang_up(); }

private:
    SimHost& host_;
};

/// A second connection to a host, with an agent that ends whatever the first one has left.
class SimCleanup final : public launch::AgentChannel {
public:
    SimCleanup(World& world, SimHost& host, std::size_t index)
        : world_(world), host_(host), index_(index) {}

    void open(Handlers handlers) override {
        if (host_.is_cut()) {
            return;  // it cannot be reached
        }
        handlers_ = std::make_shared<Handlers>(std::move(handlers));
        after(world_.script().hosts[index_].handshake, [](const Handlers& launcher) {
            const auto* magic = reinterpret_cast<const std::byte*>(wire::kMagic.data());
            launcher.on_bytes({magic, wire::kMagic.size()});
            launcher.on_bytes(wire::encode(wire::Hello{.build_id = kBuildId, .pid = 2}));
            launcher.on_bytes(wire::encode(wire::Facts{}));
        });
    }

    void send(std::vector<std::byte> /*what is to be done*/) override {
        after(2 * world_.script().hosts[index_].latency, [this](const Handlers& launcher) {
            for (auto& rank : world_.ranks) {
                if (rank.host == index_ && world_.policy().has_kill) {
                    world_.kill(rank);
                }
            }
            launcher.on_bytes(wire::encode(wire::AllGone{}));
        });
    }
    void when_sent(std::function<void()> sent) override { sent(); }
    void close() override {}

private:
    void after(Duration span, std::function<void(const Handlers&)> call) {
        world_.in(span, [alive = std::weak_ptr(handlers_), call = std::move(call)] {
            if (const auto launcher = alive.lock()) {
                call(*launcher);
            }
        });
    }

    World& world_;
    SimHost& host_;
    std::size_t index_;
    std::shared_ptr<Handlers> handlers_;  // shared with what is under way
};

}  // namespace

World::World(const Script& script, Policy policy)
    : exits_to_hide(policy.tells_exits ? 0 : 1),
      script_(script),
      policy_(policy),
      dice_(script.seed) {
    for (std::size_t host = 0; host < script_.hosts.size(); ++host) {
        hosts.push_back(std::make_unique<SimHost>(*this, host));
        for (const auto& rank : script_.hosts[host].ranks) {
            auto& made = ranks.emplace_back();
            made.script = rank;
            made.number = static_cast<int>(ranks.size()) - 1;
            made.host = host;
        }
    }
}

Result<std::unique_ptr<launch::AgentChannel>> World::start(const launch::Host& host) {
    if (next_host_ == hosts.size()) {
        const auto index = *parse_number<std::size_t>(std::string_view(host.name).substr(1));
        return std::unique_ptr<launch::AgentChannel>(
            std::make_unique<SimCleanup>(*this, *hosts.at(index), index));
    }
    const auto index = next_host_++;
    if (script_.hosts[index].fault == HostFault::refuses) {
        return Error{Errc::unavailable, "there is no room for " + host.name};
    }
    return std::unique_ptr<launch::AgentChannel>(std::make_unique<SimChannel>(*hosts.at(index)));
}

std::chrono::microseconds World::some_latency(Duration least) {
    const std::chrono::microseconds span(least);
    return span + std::chrono::microseconds(dice_() % static_cast<std::uint64_t>(span.count() + 1));
}

void World::shake_hands(std::size_t host) {
    if (shaking_ == script_.handshakes_in_flight) {
        waiting_.push_back(host);
        return;
    }
    ++shaking_;
    in(script_.hosts[host].handshake, [this, host] {
        --shaking_;
        if (!waiting_.empty()) {
            const auto next = waiting_.front();
            waiting_.pop_front();
            shake_hands(next);
        }
        hosts[host]->introduce();
    });
}

std::size_t World::log_fault(Fault fault) {
    faults.push_back(fault);
    return faults.size() - 1;
}

void World::start_rank(int number) {
    auto& subject = rank(number);
    auto& host = *hosts[subject.host];
    if (subject.script.cannot_start) {
        const auto fault = log_fault({.at = now(),
                                      .host = subject.host,
                                      .rank = number,
                                      .is_silent = false,
                                      .is_dated = true,
                                      .is_told = false});
        subject.fault = fault;
        host.tell(wire::StartFailed{.rank = number,
                                    .step = "execve x",
                                    .error_number = ENOEXEC,
                                    .why_not_executed = "'x' is no program",
                                    .time_ns = host.clock_ns()},
                  fault);
        return;
    }
    subject.lives = true;
    host.tell(wire::Started{.rank = number, .pid = 1000 + number, .time_ns = host.clock_ns()});
    in(subject.script.lives, [this, number] { come_to_end(rank(number)); });
}

/// By itself, unless something else was faster.
void World::come_to_end(SimRank& rank) {
    if (end_of_launcher || !rank.lives || rank.is_killed_by_launcher || rank.has_missed_a_peer) {
        return;
    }
    auto& host = *hosts[rank.host];
    const bool is_fault = rank.script.wait_status != 0 || rank.script.leaves_early;
    if (is_fault) {
        rank.fault = log_fault({.at = now(),
                                .host = rank.host,
                                .rank = rank.number,
                                .is_silent = false,
                                .is_dated = true,
                                .is_told = false});
    }
    if (!rank.script.raises) {
        end_rank(rank, rank.script.wait_status);
        return;
    }
    coll::agent_message::Report report;
    report.kind = coll::ReportKind::exception;
    report.text = "ValueError: simulated";
    host.tell(
        wire::RankReport{
            .rank = rank.number, .time_ns = host.clock_ns(), .report = std::move(report)},
        rank.fault);
    in(kTeardown, [this, &rank] { end_rank(rank, rank.script.wait_status); });
}

void World::term(SimRank& rank) {
    if (rank.script.term) {
        in(*rank.script.term, [this, &rank] { end_rank(rank, SIGTERM); });
    }
}

void World::kill(SimRank& rank) {
    if (!rank.script.is_stuck) {
        in(Duration(1), [this, &rank] { end_rank(rank, SIGKILL); });
    }
}

void World::end_rank(SimRank& rank, int wait_status) {
    if (!std::exchange(rank.lives, false)) {
        return;
    }
    rank.ended_at = now();
    rank.wait_status = wait_status;
    auto& host = *hosts[rank.host];
    const bool is_hidden = exits_to_hide > 0;
    if (is_hidden) {
        --exits_to_hide;
        if (rank.fault) {
            faults[*rank.fault].is_told = true;  // as far as the host can help it
        }
    } else {
        wire::Exited exited;
        exited.rank = rank.number;
        exited.time_ns = host.clock_ns();
        exited.wait_status = wait_status;
        exited.is_killed_by_launcher = rank.is_killed_by_launcher;
        // Leaving early is a fault only where a peer says so.
        host.tell(exited, rank.script.leaves_early ? std::nullopt : rank.fault);
    }
    if (wait_status != 0 || rank.script.leaves_early) {
        is_missed(rank.number, rank.host, false, Duration(0));
    }
    host.rank_ended();
}

/// Its peers report that they have lost it, and fail.
void World::is_missed(int number, std::size_t host, bool by_other_hosts_only, Duration more) {
    for (auto& peer : ranks) {
        if (peer.number == number || !peer.lives || (by_other_hosts_only && peer.host == host)) {
            continue;
        }
        const bool is_apart =
            peer.host != host && (hosts[peer.host]->is_cut() || hosts[host]->is_cut());
        const auto silence = is_apart && !by_other_hosts_only ? script_.link_silence : Duration(0);
        in(more + silence + peer.script.notices, [this, &peer, number] {
            if (!peer.lives || std::exchange(peer.has_missed_a_peer, true)) {
                return;
            }
            auto& agent = *hosts[peer.host];
            coll::agent_message::Report report;
            report.kind = coll::ReportKind::peer_lost;
            report.peer = number;
            const bool has_left = number >= 0 && rank(number).script.leaves_early;
            agent.tell(
                wire::RankReport{
                    .rank = peer.number, .time_ns = agent.clock_ns(), .report = std::move(report)},
                has_left ? rank(number).fault : std::nullopt);
            in(Duration(1), [this, &peer] { end_rank(peer, kExitOne); });
        });
    }
}

}  // namespace hvd::sim
