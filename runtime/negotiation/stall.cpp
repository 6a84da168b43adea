// SPDX-License-Identifier: Apache-2.0
#include "runtime/negotiation/stall.hpp"

#include "runtime/negotiation/readiness.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace hvd::rt {
namespace {

constexpr int kMostDoublings = 20;

/// Seconds, with a digit behind the point where they are few.
std::string describe_span(Deadline::Clock::duration span) {
    const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(span).count() / 100;
    if (tenths >= 100) {
        return std::to_string(tenths / 10) + " s";
    }
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string describe_names(std::span<const std::string> names) {
    constexpr std::size_t kNamed = 3;
    std::string text;
    for (std::size_t index = 0; index < std::min(names.size(), kNamed); ++index) {
        text += (index == 0 ? "'" : ", '") + names[index] + "'";
    }
    if (names.size() > kNamed) {
        text += " and " + std::to_string(names.size() - kNamed) + " more";
    }
    return text;
}

std::string describe(const StallInspector::Report& report,
                     int process_set,
                     Deadline::Clock::duration span) {
    const auto whose =
        process_set == 0 ? std::string() : " in process set " + std::to_string(process_set);
    const auto has = report.waiting.size() == 1 ? " has" : " have";
    std::string text = describe_ranks(report.waiting) + has + " waited for " + describe_span(span);
    if (report.stage == Waiting::Stage::flight) {
        text += " for the end of " + describe_names(report.names) + whose;
        return report.missing.empty()
                   ? text + ", which other members may not have begun"
                   : text + ", which " + describe_ranks(report.missing) +
                         (report.missing.size() == 1 ? " has" : " have") + " not begun";
    }
    text += " with " + describe_names(report.names) + whose;
    return text + " for " + describe_ranks(report.missing) + ", which " +
           (report.missing.size() == 1 ? "has" : "have") + " not submitted " +
           (report.names.size() == 1 ? "it" : "them");
}

}  // namespace

/// Stalls that are one report.
struct StallInspector::Fold {
    std::vector<const Waiting*> members;  // the first has waited longest
    bool is_due = false;
    bool ends_job = false;
};

/// When the stall is to be reported the next time.
StallInspector::TimePoint StallInspector::due_of(const Waiting& waiting) const {
    const auto found = reported_.find({waiting.stage, waiting.process_set, waiting.name});
    // A wait that has begun after the last report is a new stall.
    const bool is_new = found == reported_.end() || waiting.since > found->second.last;
    const int doublings = is_new ? 0 : std::min(found->second.times, kMostDoublings);
    return waiting.since + *limits_.warning * (std::int64_t{1} << doublings);
}

StallInspector::TimePoint StallInspector::end_of(const Waiting& waiting) const {
    return limits_.shutdown ? waiting.since + *limits_.shutdown : TimePoint::max();
}

void StallInspector::note_report(const Waiting& waiting, TimePoint now) {
    auto& reported = reported_[{waiting.stage, waiting.process_set, waiting.name}];
    if (waiting.since > reported.last) {
        reported.times = 0;
    }
    reported.last = now;
    do {
        ++reported.times;
    } while (due_of(waiting) <= now && reported.times < kMostDoublings);
}

void StallInspector::forget_ended(std::span<const Waiting> all) {
    if (reported_.empty()) {
        return;
    }
    std::set<Key> open;
    for (const auto& each : all) {
        open.emplace(each.stage, each.process_set, each.name);
    }
    std::erase_if(reported_, [&](const auto& each) { return !open.contains(each.first); });
}

StallInspector::Findings StallInspector::look(TimePoint now, std::span<const Waiting> all) {
    Findings findings;
    if (!limits_.warning) {
        return findings;
    }
    forget_ended(all);
    std::vector<const Waiting*> oldest_first;
    for (const auto& each : all) {
        oldest_first.push_back(&each);
    }
    std::ranges::stable_sort(oldest_first, {}, &Waiting::since);

    using Folded = std::tuple<Waiting::Stage, int, std::vector<int>, std::vector<int>>;
    std::map<Folded, Fold> folds;
    for (const Waiting* each : oldest_first) {
        auto& fold = folds[{each->stage, each->process_set, each->waiting, each->missing}];
        fold.is_due = fold.is_due || due_of(*each) <= now;
        fold.ends_job = fold.ends_job || end_of(*each) <= now;
        // A tensor that began to wait a little later is in the report of the first one.
        if (now - each->since >= *limits_.warning / 2) {
            fold.members.push_back(each);
        }
    }
    for (auto& [key, fold] : folds) {
        if (fold.members.empty() || !(fold.is_due || fold.ends_job)) {
            continue;
        }
        const auto& first = *fold.members.front();
        Report report{.stage = first.stage,
                      .waiting = first.waiting,
                      .missing = first.missing,
                      .names = {},
                      .text = {},
                      .ends_job = fold.ends_job};
        for (const Waiting* each : fold.members) {
            report.names.push_back(each->name);
            note_report(*each, now);
        }
        report.text = describe(report, first.process_set, now - first.since);
        findings.reports.push_back(std::move(report));
    }
    for (const auto& each : all) {
        findings.next = std::min({findings.next, due_of(each), end_of(each)});
    }
    return findings;
}

}  // namespace hvd::rt
