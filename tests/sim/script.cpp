// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/script.hpp"

#include <csignal>
#include <random>

namespace hvd::sim {
namespace {

constexpr int kExitStatus = 3 << 8;

/// The same numbers from the same seed with every standard library.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}

    int between(int low, int high) {
        const auto span = static_cast<std::uint64_t>(high - low) + 1;
        return low + static_cast<int>(engine_() % span);
    }
    bool happens(int percent) { return between(1, 100) <= percent; }
    Duration time(int low_ms, int high_ms) { return Duration(between(low_ms, high_ms)); }

private:
    std::mt19937_64 engine_;
};

void add_rank_fault(Dice& dice, RankScript& rank, Duration end) {
    rank.lives = dice.time(1, static_cast<int>(end.count()));
    switch (dice.between(0, 5)) {
        case 0: rank.wait_status = SIGSEGV; return;
        case 1: rank.wait_status = SIGKILL; return;
        case 2:
            rank.wait_status = 1 << 8;
            rank.raises = true;
            return;
        case 3: rank.leaves_early = true; return;
        case 4: rank.cannot_start = true; return;
        default: rank.wait_status = kExitStatus; return;
    }
}

void add_host_fault(Dice& dice, HostScript& host, Duration end) {
    constexpr int kBeforeStart = -200;
    host.fault_at = dice.time(kBeforeStart, static_cast<int>(end.count()));
    switch (dice.between(0, 13)) {
        case 0: host.fault = HostFault::never_links; return;
        case 1:
        case 2:
        case 3: host.fault = HostFault::closes; return;
        case 4:
        case 5: host.fault = HostFault::agent_dies; return;
        case 6:
        case 7: host.fault = HostFault::is_drained; return;
        default: host.fault = HostFault::falls_silent; return;
    }
}

RankScript draw_rank(Dice& dice, Duration end, Duration grace) {
    RankScript rank;
    rank.lives = end + dice.time(0, 300);
    rank.notices = dice.time(1, 200);
    if (dice.happens(15)) {
        rank.term.reset();
    } else {
        rank.term = dice.happens(25) ? dice.time(0, 2 * static_cast<int>(grace.count()))
                                     : dice.time(0, 200);
    }
    rank.is_stuck = dice.happens(1);
    return rank;
}

/// Whether something in it ends the whole job.
bool must_stop(const Script& script) {
    bool is_sure = false;
    for (const auto& host : script.hosts) {
        is_sure = is_sure || host.fault != HostFault::none;
        for (const auto& rank : host.ranks) {
            if (rank.leaves_early) {
                return false;  // perhaps nobody misses it, and its host is done before it fails
            }
            is_sure = is_sure || rank.wait_status != 0 || rank.cannot_start;
        }
    }
    return is_sure && script.on_failure == launch::OnFailure::stop;
}

/// Ranks without a fault end only when they are ended.
void live_long(Script& script) {
    for (auto& host : script.hosts) {
        for (auto& rank : host.ranks) {
            if (rank.wait_status == 0 && !rank.leaves_early) {
                rank.lives = std::chrono::hours(1);
            }
        }
    }
}

/// Draws the answers of the hosts before ranks start, and faults instead of them or of agents.
void add_answers(Dice& dice, Script& script) {
    if (dice.happens(20)) {
        script.ports = {.first = 29'500, .last = 29'510};
        script.free_port = dice.happens(10) ? 0 : dice.between(29'500, 29'510);
    }
    for (std::size_t index = 0; index < script.hosts.size(); ++index) {
        auto& host = script.hosts[index];
        if (index > 0 && dice.happens(10)) {
            const auto other =
                static_cast<std::size_t>(dice.between(0, static_cast<int>(index) - 1));
            host.twin = script.hosts[other].twin.value_or(other);
        }
        if (dice.happens(1)) {
            host.problem = "'x' was not found";
        }
        if (host.fault == HostFault::never_links && dice.happens(50)) {
            host.fault = HostFault::speaks_another_version;
        } else if (host.fault == HostFault::closes && dice.happens(50)) {
            const bool has_ranks =
                host.fault_at > Duration(0);  // else nobody asks which rank it is
            host.fault = has_ranks && dice.happens(50) ? HostFault::names_unknown_rank
                                                       : HostFault::sends_garbage;
        }
        if (host.fault != HostFault::none && dice.happens(15)) {
            host.fault_instead_of = dice.happens(50) ? Question::seek : Question::check;
            if (index == 0 && script.ports && dice.happens(50)) {
                host.fault_instead_of = Question::pick_port;
            }
        }
    }
}

}  // namespace

Script plain_script(std::size_t hosts, std::size_t ranks) {
    Script script;
    script.hosts.resize(hosts);
    for (auto& host : script.hosts) {
        host.ranks.resize(ranks);
    }
    return script;
}

Script draw_script(std::uint64_t seed) {
    Dice dice(seed);
    Script script;
    script.seed = seed;
    script.lease = dice.time(1000, 8000);
    script.grace = dice.happens(10) ? Duration(0) : dice.time(100, 5000);
    script.link_silence = dice.time(200, 20'000);
    script.on_failure = dice.happens(20) ? launch::OnFailure::wait : launch::OnFailure::stop;
    if (dice.happens(10)) {
        script.interrupted_at = dice.time(0, 8000);
    }
    const auto end = dice.time(100, 12'000);
    script.hosts.resize(static_cast<std::size_t>(dice.between(1, 6)));
    for (auto& host : script.hosts) {
        host.handshake = dice.time(10, 1000);
        host.latency = dice.time(0, 40);
        host.clock_ahead = dice.time(-1'000'000, 1'000'000);
        for (int count = dice.between(1, 4); count > 0; --count) {
            host.ranks.push_back(draw_rank(dice, end, script.grace));
        }
    }
    if (dice.happens(25)) {
        for (auto& host : script.hosts) {
            for (auto& rank : host.ranks) {
                rank.notices = std::chrono::hours(1);  // they do not talk to each other
            }
        }
    }
    for (int faults = dice.between(0, 2); faults > 0; --faults) {
        auto& host = script.hosts[static_cast<std::size_t>(
            dice.between(0, static_cast<int>(script.hosts.size()) - 1))];
        if (dice.happens(50)) {
            add_host_fault(dice, host, end);
        } else {
            add_rank_fault(dice,
                           host.ranks[static_cast<std::size_t>(
                               dice.between(0, static_cast<int>(host.ranks.size()) - 1))],
                           end);
        }
    }
    if (must_stop(script) && dice.happens(40)) {
        live_long(script);
    }
    add_answers(dice, script);
    return script;
}

}  // namespace hvd::sim
