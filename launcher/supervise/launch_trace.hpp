// SPDX-License-Identifier: Apache-2.0
//
// Where the time of a start goes, host by host, and which chain of steps it took that long for.
// Pure: its owner reports events and their times.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

class LaunchTrace final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    explicit LaunchTrace(TimePoint began) : began_(began) {}

    /// All hosts of the job; called before any event of one.
    void add_hosts(const std::vector<std::string>& names);

    /// The job enters a step; the one before is over.
    void enter(std::string step, TimePoint now);

    /// The way to a host's agent enters a step; the one before is over. A host that is not known is
    /// left out.
    void enter(std::string_view host, std::string step, TimePoint now);

    /// The host has done its part of the job's step.
    void done(std::size_t host, TimePoint now);

    /// The rank has started, as a part of the job's step.
    void started(std::size_t host, int rank, TimePoint at);

    /// Every rank has started, or none will any more.
    void finish(TimePoint now);

    /// "0.412 s: node7 (connecting 1 ms, ...) 350 ms, plan 1 ms, ...". Empty before `finish`.
    [[nodiscard]] std::string critical_path() const;

    /// Trace events that Perfetto and chrome://tracing show: a process for each host, one for the
    /// job with the critical path.
    [[nodiscard]] std::string to_json() const;

private:
    struct Span {
        std::string name;
        TimePoint begin;
        std::optional<TimePoint> end{};
    };

    /// One step of the job, and who ended it.
    struct Step {
        Span span;
        std::optional<std::size_t> last_host{};
        std::optional<int> last_rank{};
        TimePoint last_at{};
    };

    struct RankSpan {
        int rank = 0;
        Span span;
    };

    struct Track {
        std::string name;
        std::vector<Span> way{};    // to its agent
        std::vector<Span> parts{};  // of the job's later steps
        std::vector<RankSpan> ranks{};
    };

    void take_part(std::size_t host, std::optional<int> rank, TimePoint at);
    [[nodiscard]] std::vector<Span> critical_spans() const;
    [[nodiscard]] TimePoint end_of(const Span& span) const;

    TimePoint began_;
    std::optional<TimePoint> finished_;
    std::vector<Step> steps_;
    std::vector<Track> hosts_;
};

}  // namespace hvd::launch
