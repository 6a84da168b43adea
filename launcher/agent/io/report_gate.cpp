// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/report_gate.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hvd::launch::agent {
namespace {

/// A shell can run any number of programs one after the other, and any number of them can fail.
constexpr std::size_t kMaxWelcomed = 64;
constexpr std::size_t kMaxHeld = 64;

template <class Element>
void keep_newest(std::vector<Element>& all, std::size_t count) {
    if (all.size() > count) {
        all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(count));
    }
}

bool contains(std::span<const Process> processes, const Process& wanted) {
    return std::ranges::any_of(processes, [&](const Process& each) {
        return each.pid == wanted.pid && each.start_time == wanted.start_time;
    });
}

std::span<const Process> above(std::span<const Process> lineage) {
    return lineage.subspan(1);
}

bool is_below_any(std::span<const Process> lineage, std::span<const Process> others) {
    return std::ranges::any_of(above(lineage),
                               [&](const Process& each) { return contains(others, each); });
}

}  // namespace

void ReportGate::welcome(int rank, std::span<const Process> lineage) {
    auto& welcomed = welcomed_[rank];
    const auto& process = lineage.front();
    if (is_below_any(lineage, welcomed) || contains(welcomed, process)) {
        return;
    }
    welcomed.push_back(process);
    keep_newest(welcomed, kMaxWelcomed);
    // Of its children that failed before it became the rank.
    std::erase_if(held_, [&](const Held& held) { return contains(above(held.lineage), process); });
}

bool ReportGate::admits(const wire::RankReport& report,
                        std::span<const Process> lineage,
                        TimePoint now) {
    if (is_below_any(lineage, welcomed_[report.rank])) {
        return false;
    }
    if (report.report.kind != coll::ReportKind::exception || above(lineage).empty()) {
        return true;
    }
    held_.push_back({.report = report, .lineage = {lineage.begin(), lineage.end()}, .since = now});
    keep_newest(held_, kMaxHeld);
    return false;
}

std::vector<wire::RankReport> ReportGate::take_due(
    TimePoint now,
    const std::function<bool(const Process&)>& lives) {
    std::vector<wire::RankReport> due;
    for (auto& held : std::exchange(held_, {})) {
        const bool is_due = now >= held.next();
        if (is_due && held.was_due) {
            continue;  // the wrapper goes on: it has handled that
        }
        if (is_due && lives(held.lineage.front())) {
            due.push_back(std::move(held.report));
        } else {
            held.was_due = held.was_due || is_due;
            held_.push_back(std::move(held));
        }
    }
    return due;
}

std::optional<ReportGate::TimePoint> ReportGate::deadline() const {
    const auto first = std::ranges::min_element(held_, {}, &Held::next);
    return first == held_.end() ? std::nullopt : std::optional(first->next());
}

std::vector<wire::RankReport> ReportGate::rank_ended(int rank) {
    std::vector<wire::RankReport> told;
    for (auto& held : std::exchange(held_, {})) {
        if (held.report.rank == rank) {
            told.push_back(std::move(held.report));
        } else {
            held_.push_back(std::move(held));
        }
    }
    welcomed_.erase(rank);
    return told;
}

}  // namespace hvd::launch::agent
