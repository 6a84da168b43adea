// SPDX-License-Identifier: Apache-2.0
#include "launcher/timeline/align_clocks.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>

namespace hvd::launch {
namespace {

/// The identity of a rank's clock. A clock without a name is that of its host.
std::string key_of(const TraceStart& start) {
    return start.clock.empty() ? "host " + start.host : start.clock;
}

std::int64_t wall_shift(const TraceStart& start) {
    return start.wall_ns - start.steady_ns;
}

std::int64_t least_error(const HostClock& host) {
    return std::ranges::min_element(host.samples, {}, &ClockSample::error_ns)->error_ns;
}

/// Ranks whose clock is the same one.
struct Group {
    std::vector<int> ranks;  // ascending
    std::vector<std::string> hosts;
    std::vector<std::size_t> traces;
};

/// Several hosts may be one machine: the one that was measured best counts.
const HostClock* best_of(const HostClocks& measured, const Group& group) {
    const HostClock* best = nullptr;
    for (const auto& host : measured.hosts) {
        const bool is_of_group = std::ranges::any_of(
            host.ranks, [&](int rank) { return std::ranges::binary_search(group.ranks, rank); });
        if (is_of_group && !host.samples.empty() &&
            (best == nullptr || least_error(host) < least_error(*best))) {
            best = &host;
        }
    }
    return best;
}

std::map<std::string, Group> group_by_clock(std::span<const TraceStart> starts) {
    std::map<std::string, Group> groups;
    for (std::size_t trace = 0; trace < starts.size(); ++trace) {
        auto& group = groups[key_of(starts[trace])];
        group.traces.push_back(trace);
        group.ranks.push_back(starts[trace].rank);
        if (std::ranges::find(group.hosts, starts[trace].host) == group.hosts.end()) {
            group.hosts.push_back(starts[trace].host);
        }
    }
    for (auto& [key, group] : groups) {
        std::ranges::sort(group.ranks);
    }
    return groups;
}

/// The ranks of a group need one that counts for all: their readings differ by microseconds.
const TraceStart& first_of(const Group& group, std::span<const TraceStart> starts) {
    return starts[*std::ranges::min_element(group.traces, {},
                                            [&](std::size_t trace) { return starts[trace].rank; })];
}

}  // namespace

RankClock RankClock::measured(std::span<const ClockSample> samples) {
    RankClock clock;
    clock.basis_ = Basis::measured;
    for (const auto& sample : samples) {
        clock.error_ns_ = std::max(clock.error_ns_, sample.error_ns);
        clock.points_.push_back(
            {.at_ns = sample.at_ns + sample.ahead_ns, .shift_ns = -sample.ahead_ns});
    }
    return clock;
}

RankClock RankClock::by_wall(std::int64_t shift_ns) {
    RankClock clock;
    clock.basis_ = Basis::wall;
    clock.points_.push_back({.shift_ns = shift_ns});
    return clock;
}

std::int64_t RankClock::to_common(std::int64_t time_ns) const noexcept {
    if (points_.empty()) {
        return time_ns;
    }
    const auto after = std::ranges::upper_bound(points_, time_ns, {}, &Point::at_ns);
    if (after == points_.begin()) {
        return time_ns + after->shift_ns;
    }
    const auto before = std::prev(after);
    if (after == points_.end() || after->at_ns == before->at_ns) {
        return time_ns + before->shift_ns;
    }
    const auto part = static_cast<double>(time_ns - before->at_ns) /
                      static_cast<double>(after->at_ns - before->at_ns);
    const auto change = static_cast<double>(after->shift_ns - before->shift_ns);
    return time_ns + before->shift_ns + static_cast<std::int64_t>(part * change);
}

std::string RankClock::describe() const {
    switch (basis_) {
        case Basis::same: return "the clock of its host";
        case Basis::wall: return "aligned by wall clocks";
        case Basis::measured: break;
    }
    constexpr double kNsInMs = 1e6;
    std::array<char, 64> text{};
    (void)std::snprintf(text.data(), text.size(), "clock measured to %.3f ms",
                        static_cast<double>(error_ns_) / kNsInMs);
    return text.data();
}

bool have_one_clock(std::span<const TraceStart> starts) {
    return std::ranges::all_of(
        starts, [&](const TraceStart& start) { return key_of(start) == key_of(starts.front()); });
}

Alignment align_clocks(std::span<const TraceStart> starts,
                       const std::optional<HostClocks>& measured) {
    Alignment alignment;
    alignment.clocks.resize(starts.size());
    if (have_one_clock(starts)) {
        return alignment;
    }
    std::vector<std::string> unknown;
    for (const auto& [key, group] : group_by_clock(starts)) {
        RankClock clock;
        if (const auto* host = measured ? best_of(*measured, group) : nullptr;
            measured && key == measured->clock) {
            // The common clock is horovodrun's.
        } else if (host != nullptr) {
            clock = RankClock::measured(host->samples);
        } else {
            const auto common = measured ? measured->wall_ns - measured->steady_ns : 0;
            clock = RankClock::by_wall(wall_shift(first_of(group, starts)) - common);
            unknown.push_back(join(group.hosts, ", ") + " (ranks " + format_ranges(group.ranks) +
                              ")");
        }
        for (const auto trace : group.traces) {
            alignment.clocks[trace] = clock;
        }
    }
    if (!unknown.empty()) {
        constexpr std::size_t kMostNamed = 8;
        alignment.warnings.push_back("horovodrun has not measured the clocks of " +
                                     join_first(unknown, kMostNamed) +
                                     ": they are aligned by wall clocks, which may differ by "
                                     "milliseconds or more");
    }
    return alignment;
}

}  // namespace hvd::launch
