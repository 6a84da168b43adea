// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/late_rank.hpp"

#include "launcher/supervise/time_words.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace hvd::launch {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr double kNanosecond = 1e-9;

/// The kernel says 0 where the process runs, or where it does not tell.
std::string in_channel(std::string_view channel) {
    return channel.empty() || channel == "0" ? "" : " (" + std::string(channel) + ")";
}

std::string describe_state(const wire::RankActivity& activity) {
    switch (activity.state.empty() ? '?' : activity.state.front()) {
        case 'R': return "runs";
        case 'S': return "sleeps" + in_channel(activity.wait_channel);
        case 'D': return "waits for a device or file system" + in_channel(activity.wait_channel);
        case 'T': return "is stopped by a signal";
        case 't': return "is held by a debugger";
        default: return "is in state " + activity.state;
    }
}

}  // namespace

bool is_late_to_init(const RankRecord& rank) {
    return rank.missed && rank.missed->report.kind == coll::ReportKind::start_timeout;
}

std::string describe_activity(const RankRecord& rank) {
    if (!rank.started) {
        return "has not started";
    }
    if (!rank.activity) {
        return "has not been seen since";
    }
    const auto lived_ns = std::max<std::int64_t>(0, rank.missed->time_ns - rank.started->time_ns);
    return describe_state(*rank.activity) + ", " +
           describe_time(static_cast<double>(rank.activity->cpu_ms) * kMillisecond) +
           " of CPU time in " + describe_time(static_cast<double>(lived_ns) * kNanosecond);
}

std::string describe_lateness(const RankRecord& rank) {
    return "has not called hvd.init() " + rank.missed->report.text + "; it " +
           describe_activity(rank);
}

}  // namespace hvd::launch
