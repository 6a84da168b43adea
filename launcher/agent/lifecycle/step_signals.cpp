// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/step_signals.hpp"

#include "launcher/agent/processes/signals.hpp"

#include <algorithm>
#include <csignal>

namespace hvd::launch::agent {

bool StepSignals::is_recent(int number, TimePoint now) const {
    const auto heard = heard_.find(number);
    return heard != heard_.end() && now - heard->second < kSame;
}

bool StepSignals::hear(int number, TimePoint now) {
    const bool is_news = !is_recent(number, now);
    heard_.insert_or_assign(number, now);
    held_.erase(number);
    return is_news;
}

bool StepSignals::was_heard(int number, TimePoint since) const {
    const auto heard = heard_.find(number);
    return heard != heard_.end() && heard->second >= since;
}

void StepSignals::ask(int number, TimePoint now, std::chrono::milliseconds grace) {
    if (number == SIGTSTP || number == SIGCONT) {
        held_.erase(number == SIGTSTP ? SIGCONT : SIGTSTP);
    }
    if (!is_recent(number, now)) {
        held_.emplace(number, now + (is_stop_signal(number) ? std::min(kHold, grace / 4) : kHold));
    }
}

std::vector<int> StepSignals::take_due(TimePoint now) {
    std::vector<int> due;
    std::erase_if(held_, [&](const auto& entry) {
        if (entry.second > now) {
            return false;
        }
        due.push_back(entry.first);
        return true;
    });
    return due;
}

bool StepSignals::is_expecting(TimePoint now) {
    if (expected_until_ && now >= *expected_until_) {
        expected_until_.reset();
    }
    return expected_until_.has_value();
}

std::optional<StepSignals::TimePoint> StepSignals::deadline() const {
    auto first = expected_until_;
    for (const auto& [number, until] : held_) {
        if (!first || until < *first) {
            first = until;
        }
    }
    return first;
}

}  // namespace hvd::launch::agent
