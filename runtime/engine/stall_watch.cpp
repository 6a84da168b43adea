// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/stall_watch.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace hvd::rt {
namespace {

// Ranks that are asked for names answer within this time, so that they are one report.
constexpr std::chrono::milliseconds kSettle{500};

}  // namespace

bool StallWatch::look(TimePoint now) {
    const auto warning = *setup_.limits.warning;
    next_ = next_.value_or(now + warning);
    executor_.note_time(now);
    negotiator_.note_time(now);
    if (negotiator_.take_longest_wait() >= warning / 2) {
        next_ = now + std::min(kSettle, warning / 2);  // others say so, too
    }
    if (now < *next_) {
        return false;
    }
    waiting_.clear();
    negotiator_.list_waiting(waiting_);
    executor_.list_in_flight(waiting_);
    const auto asked = negotiator_.ask_for_names(now - warning);
    const auto findings = inspector_.look(now, waiting_);
    for (const auto& report : findings.reports) {
        tell(report);
        if (report.ends_job) {
            end_job(report);
        }
    }
    next_ = std::min(findings.next, now + warning);
    if (asked.oldest) {
        next_ = std::min(*next_, *asked.oldest + warning);
    }
    return asked.has_asked || !findings.reports.empty();
}

void StallWatch::tell(const StallInspector::Report& report) const {
    const bool is_ours =
        report.stage == Waiting::Stage::agreement || report.waiting.front() == setup_.rank;
    if (!setup_.tell || !is_ours) {
        return;
    }
    std::string text = "stall: " + report.text;
    if (report.missing.size() == 1) {
        text += ": " + channel_.describe(report.missing.front());
    }
    setup_.tell(text);
}

void StallWatch::end_job(const StallInspector::Report& report) {
    const int culprit = report.missing.empty() ? -1 : report.missing.front();
    Error error{
        Errc::aborted,
        report.text + "; HOROVOD_STALL_SHUTDOWN_TIME_SECONDS ends the job after " +
            std::to_string(
                std::chrono::duration_cast<std::chrono::seconds>(*setup_.limits.shutdown).count()) +
            " s"};
    if (setup_.blame) {
        setup_.blame(report.missing, error.message);
    }
    if (report.stage == Waiting::Stage::agreement) {
        negotiator_.end_world(culprit, report.names.front(), error);
    } else if (!verdict_) {
        verdict_ = {.peer = culprit, .error = std::move(error), .in_flight = true};
    }
}

}  // namespace hvd::rt
