// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace hvd::rt {

/// How long a wait lasts before it counts as a stall.
struct StallLimits {
    std::optional<std::chrono::milliseconds> warning{};   // nothing: stalls are not looked for
    std::optional<std::chrono::milliseconds> shutdown{};  // nothing: none ends the job

    friend bool operator==(const StallLimits&, const StallLimits&) = default;
};

/// A tensor group that some members of its process set wait with, for others.
struct Waiting {
    using TimePoint = Deadline::Clock::time_point;

    enum class Stage {
        agreement,  // some have not submitted it
        proposal,   // as before; awaited by callers of all ranks that have it
        flight,     // the collective has begun here, and does not end
    };

    Stage stage = Stage::agreement;
    int process_set = 0;
    std::string name{};
    std::vector<int> waiting{};  // ranks of the world, ascending
    std::vector<int> missing{};  // likewise; empty: not known
    TimePoint since{};           // when the first rank began to wait
};

/// Finds tensors that have waited for too long, and says when to look again. A machine without I/O
/// or clock.
///
/// A stall is reported once it has lasted for the warning time, and again each time that it has
/// lasted twice as long. Tensors that wait for the same ranks are one report.
class StallInspector {
public:
    using TimePoint = Waiting::TimePoint;

    explicit StallInspector(const StallLimits& limits) : limits_(limits) {}

    struct Report {
        Waiting::Stage stage = Waiting::Stage::agreement;
        std::vector<int> waiting;
        std::vector<int> missing;
        std::vector<std::string> names;  // of all tensors; the first has waited longest
        std::string text;                // one line, for the log
        bool ends_job = false;           // it has lasted for the shutdown time
    };
    struct Findings {
        std::vector<Report> reports;
        TimePoint next = TimePoint::max();  // when something will have waited for too long
    };

    /// Looks at everything that waits.
    [[nodiscard]] Findings look(TimePoint now, std::span<const Waiting> all);

private:
    using Key = std::tuple<Waiting::Stage, int, std::string>;
    struct Reported {
        int times = 0;
        TimePoint last{};
    };
    struct Fold;

    [[nodiscard]] TimePoint due_of(const Waiting& waiting) const;
    [[nodiscard]] TimePoint end_of(const Waiting& waiting) const;
    void note_report(const Waiting& waiting, TimePoint now);
    void forget_ended(std::span<const Waiting> all);

    StallLimits limits_;
    std::map<Key, Reported> reported_;
};

}  // namespace hvd::rt
