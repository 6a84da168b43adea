// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/time_limit.hpp"

#include <array>
#include <cstdio>
#include <ctime>

namespace hvd::launch {
namespace {

using Clock = std::chrono::system_clock;
using std::chrono::milliseconds;

/// As Slurm's own tools show it: in the time zone of this machine.
std::string shown(std::int64_t unix_time) {
    const auto seconds = static_cast<std::time_t>(unix_time);
    std::tm parts{};
    std::array<char, 32> text{};
    const auto size = ::localtime_r(&seconds, &parts) == nullptr
                          ? 0
                          : std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    return size == 0 ? std::to_string(unix_time) : std::string(text.data(), size);
}

std::optional<TimeLimit> limit_of_allocation(std::int64_t end, Clock::time_point now) {
    const auto year_ahead =
        std::chrono::floor<std::chrono::seconds>(now.time_since_epoch() + std::chrono::years(1));
    if (end <= 0 || end > year_ahead.count()) {
        return std::nullopt;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(std::chrono::seconds(end) -
                                                               now.time_since_epoch());
    if (left.count() <= 0) {
        return std::nullopt;
    }
    return TimeLimit{.left = left,
                     .words = "the allocation ends at " + shown(end) +
                              " (SLURM_JOB_END_TIME); ask for more time (--time of sbatch)"};
}

TimeLimit limit_of_flag(milliseconds timeout) {
    std::array<char, 32> seconds{};
    (void)std::snprintf(seconds.data(), seconds.size(), "%g",
                        std::chrono::duration<double>(timeout).count());
    return {.left = timeout,
            .words = std::string("the time limit of the job (--timeout), ") + seconds.data() +
                     " s, has passed"};
}

}  // namespace

std::optional<TimeLimit> time_limit(const Limits& limits, Clock::time_point now) {
    auto limit =
        limits.allocation_end ? limit_of_allocation(*limits.allocation_end, now) : std::nullopt;
    if (limits.timeout && (!limit || *limits.timeout <= limit->left)) {
        limit = limit_of_flag(*limits.timeout);
    }
    return limit;
}

}  // namespace hvd::launch
