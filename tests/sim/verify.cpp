// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/verify.hpp"

#include "launcher/model/exit_code.hpp"

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>

namespace hvd::sim {
namespace {

using launch::Reason;

/// The uncertainty of a host's silence: its last message may lie this far before.
constexpr auto kBetweenWords = Duration(1100);

/// For what messages, KILL and the guard take beside the latency.
constexpr auto kSlack = Duration(100);

Duration longest_way(const World& world) {
    Duration longest{0};
    for (const auto& host : world.script().hosts) {
        longest = std::max(longest, 2 * host.latency);
    }
    return longest;
}

std::string name_of(const Fault& fault) {
    return fault.rank ? "rank " + std::to_string(*fault.rank)
                      : "host h" + std::to_string(fault.host);
}

std::string milliseconds(TimePoint time) {
    const auto since =
        std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
    return std::to_string(since.count()) + " ms";
}

std::string what_happened(const World& world) {
    std::string all;
    for (const auto& fault : world.faults) {
        all += name_of(fault) + " at " + milliseconds(fault.at) +
               (fault.is_silent ? ", silent; "
                : fault.is_told ? "; "
                                : ", untold; ");
    }
    return all + "horovodrun ended at " + milliseconds(*world.end_of_launcher) + "\n";
}

/// When the launcher may think that it began.
struct Span {
    TimePoint from;
    TimePoint to;
};

Span span_of(const Fault& fault, Duration way) {
    if (fault.is_dated) {
        return {fault.at - way, fault.at + way};
    }
    return fault.is_silent ? Span{fault.at - kBetweenWords - way, fault.at}
                           : Span{fault.at, fault.at + way + kSlack};
}

/// Those that nothing else can have preceded.
std::vector<Fault> possible_culprits(const World& world) {
    const auto way = longest_way(world);
    auto latest = TimePoint::max();
    for (const auto& fault : world.faults) {
        if (fault.is_told) {
            latest = std::min(latest, span_of(fault, way).to);
        }
    }
    std::vector<Fault> possible;
    for (const auto& fault : world.faults) {
        if (fault.is_told && span_of(fault, way).from <= latest) {
            possible.push_back(fault);
        }
    }
    return possible;
}

bool is_named(const Fault& fault, const launch::JobResult& result) {
    if (fault.rank) {  // of ranks that failed alike the lowest stands for all
        return result.culprit && (result.culprit->rank.rank == *fault.rank ||
                                  std::ranges::count(result.culprit->same_ranks, *fault.rank) > 0);
    }
    return result.lost_host == "h" + std::to_string(fault.host);
}

void verify_verdict(const World& world, Outcome& outcome) {
    const auto& result = *outcome.result;
    const bool all_well = std::ranges::all_of(world.ranks, [](const SimRank& rank) {
        return !rank.lives && rank.wait_status == 0 && !rank.script.cannot_start;
    });
    const auto possible = possible_culprits(world);
    if (result.exit_code == 0 && (!all_well || !possible.empty())) {
        outcome.complaints.emplace_back("false success");
    }
    if (result.exit_code != 0 && all_well && possible.empty()) {
        outcome.complaints.push_back("false failure: " + launch::format_last_words(result));
    }
    if (result.reason == Reason::interrupted || possible.empty()) {
        return;
    }
    const bool is_right =
        std::ranges::any_of(possible, [&](const Fault& fault) { return is_named(fault, result); });
    if (!is_right) {
        outcome.complaints.push_back("wrong verdict: " + what_happened(world) +
                                     launch::format_last_words(result));
    }
}

/// When the last of this rank's host must have ended; nothing where nobody wanted its end.
std::optional<TimePoint> time_to_be_gone(const World& world, const SimRank& rank) {
    const auto way = longest_way(world);
    constexpr auto kMore = std::chrono::seconds(1);
    std::optional<TimePoint> limit;
    const auto narrow = [&](TimePoint time) { limit = limit ? std::min(*limit, time) : time; };
    for (const auto& fault : world.faults) {
        if (fault.rank || fault.host != rank.host) {
            continue;
        }
        narrow(fault.at + way + kMore + kSlack +
               (fault.is_silent ? world.script().lease : Duration(0)) +
               (fault.is_dated ? world.script().grace : Duration(0)));
    }
    if (world.hosts[rank.host]->is_cut()) {
        return limit;  // it cannot be reached
    }
    for (const auto& fault : world.faults) {
        const auto teardown = Duration(2000);
        if (fault.rank && fault.is_told && world.script().on_failure == launch::OnFailure::stop) {
            narrow(fault.at + 2 * way + teardown + world.script().grace + kMore + kSlack);
        }
    }
    narrow(*world.end_of_launcher + way + kMore + kSlack);
    return limit;
}

void verify_ends(const World& world, Outcome& outcome) {
    for (const auto& rank : world.ranks) {
        if (!world.hosts[rank.host]->was_started()) {
            continue;
        }
        const auto name = "rank " + std::to_string(rank.number);
        if (rank.lives && !rank.script.is_stuck) {
            outcome.complaints.push_back("orphan: " + name);
            continue;
        }
        const auto limit = time_to_be_gone(world, rank);
        if (!rank.lives && limit && rank.ended_at > *limit && !rank.script.is_stuck) {
            outcome.complaints.push_back(name + " ended too late, at " +
                                         milliseconds(rank.ended_at) + " and not until " +
                                         milliseconds(*limit) + ": " + what_happened(world));
        }
    }
}

bool was_lost(const World& world, std::size_t host) {
    return std::ranges::any_of(
        world.faults, [host](const Fault& fault) { return !fault.rank && fault.host == host; });
}

bool is_listed(const SimRank& rank, const Outcome& outcome) {
    return std::ranges::any_of(outcome.result->survivors,
                               [&](const launch::HostSurvivor& survivor) {
                                   return survivor.process.pid == 1000 + rank.number;
                               });
}

/// A rank that the launcher let go without having seen it end might as well live on.
void verify_knowledge(const World& world, Outcome& outcome) {
    for (const auto& rank : world.ranks) {
        const auto& known = outcome.result->ranks[static_cast<std::size_t>(rank.number)];
        const bool is_known = known.exit_code || known.signal || rank.script.cannot_start;
        if (is_known || !world.hosts[rank.host]->was_started() || was_lost(world, rank.host) ||
            is_listed(rank, outcome)) {
            continue;
        }
        outcome.complaints.push_back(
            "orphan: the job is over, and nobody has seen the end of rank " +
            std::to_string(rank.number));
    }
}

bool has_problem(const HostScript& host) {
    return !host.problem.empty();
}

/// Whether the words name a host with a fault, or what a host has answered.
bool is_reason(const Script& script, const std::string& words) {
    const auto has = [&](const std::string& part) { return words.find(part) != std::string::npos; };
    if (script.ports && script.free_port == 0 && has("no port from ")) {
        return true;
    }
    for (std::size_t index = 0; index < script.hosts.size(); ++index) {
        const auto& host = script.hosts[index];
        const bool is_broken =
            host.fault != HostFault::none || host.build != std::string_view(kBuildId);
        if ((is_broken && has("h" + std::to_string(index))) ||
            (has_problem(host) && has(host.problem))) {
            return true;
        }
    }
    return false;
}

void verify_start(const World& world, Outcome& outcome) {
    const auto& script = world.script();
    if (outcome.start) {
        const bool was_interrupted =
            script.interrupted_at &&
            outcome.start->result.exit_code == launch::exit_code_of_signal(SIGINT);
        if (!was_interrupted && !is_reason(script, outcome.start_error)) {
            outcome.complaints.push_back("wrong reason of a failed start: " + outcome.start_error);
        }
    } else if (std::ranges::any_of(script.hosts, has_problem)) {
        outcome.complaints.emplace_back("ranks were started, though one cannot run on its host");
    }
}

}  // namespace

void verify(World& world, Outcome& outcome) {
    verify_start(world, outcome);
    verify_ends(world, outcome);
    if (outcome.result) {
        verify_verdict(world, outcome);
        verify_knowledge(world, outcome);
    }
}

}  // namespace hvd::sim
