// SPDX-License-Identifier: Apache-2.0
#include "launcher/fleet/heartbeat.hpp"

#include <algorithm>

namespace hvd::launch {
namespace {

constexpr int kQuestionsPerLease = 8;

}  // namespace

Heartbeat::Heartbeat(std::chrono::milliseconds lease, std::size_t hosts)
    : lease_(lease),
      interval_(lease.count() > 0
                    ? std::min<std::chrono::milliseconds>(kInterval, lease / kQuestionsPerLease)
                    : kInterval),
      hosts_(hosts) {}

void Heartbeat::add(std::size_t host, Clock clock, TimePoint now) {
    auto& entry = hosts_.at(host);
    entry.is_heard = true;
    entry.has_own_clock = clock == Clock::its_own;
    entry.heard_at = now;
    entry.ask_at =
        now + (entry.has_own_clock ? std::min<std::chrono::milliseconds>(kFirstQuestion, interval_)
                                   : kQuickInterval);
}

void Heartbeat::remove(std::size_t host) noexcept {
    hosts_[host].is_heard = false;
}

std::vector<std::size_t> Heartbeat::hurry(TimePoint now) {
    std::vector<std::size_t> asked;
    for (std::size_t index = 0; index < hosts_.size(); ++index) {
        auto& host = hosts_[index];
        if (host.is_heard && host.has_own_clock) {
            host.quick_questions = kQuickQuestions;
            ask(host, now);
            asked.push_back(index);
        }
    }
    return asked;
}

/// It is asked now.
void Heartbeat::ask(Host& host, TimePoint now) const noexcept {
    host.quick_questions = std::max(0, host.quick_questions - 1);
    const auto interval = host.quick_questions > 0
                              ? std::min<std::chrono::milliseconds>(kQuickInterval, interval_)
                              : interval_;
    host.ask_at = now + interval;
}

void Heartbeat::heard(std::size_t host, TimePoint now) noexcept {
    hosts_[host].heard_at = now;
}

void Heartbeat::answered(std::size_t host, const wire::Pong& pong, TimePoint now) noexcept {
    hosts_[host].offset.add(
        pong, std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count());
}

Heartbeat::Due Heartbeat::due(TimePoint now) {
    Due due;
    if (is_paused_) {
        return due;
    }
    if (expected_ && now - *expected_ >= kOverslept) {
        start_again(now);
    }
    for (std::size_t index = 0; index < hosts_.size(); ++index) {
        auto& host = hosts_[index];
        if (!host.is_heard) {
            continue;
        }
        if (lease_.count() > 0 && now - host.heard_at >= lease_) {
            host.is_heard = false;
            due.lost.push_back(index);
            continue;
        }
        if (!host.was_told_of && now - host.heard_at >= kSilence) {
            host.was_told_of = true;
            due.silent.push_back(index);
        }
        if (now + kTogether >= host.ask_at) {
            ask(host, now);
            due.ask.push_back(index);
        }
    }
    expected_ = next();
    return due;
}

Heartbeat::TimePoint Heartbeat::next_of(const Host& host) const noexcept {
    auto next = host.ask_at;
    if (lease_.count() > 0) {
        next = std::min(next, host.heard_at + lease_);
    }
    return host.was_told_of ? next : std::min<TimePoint>(next, host.heard_at + kSilence);
}

std::optional<Heartbeat::TimePoint> Heartbeat::next() const noexcept {
    std::optional<TimePoint> next;
    for (const auto& host : hosts_) {
        if (host.is_heard && !is_paused_ && (!next || next_of(host) < *next)) {
            next = next_of(host);
        }
    }
    return next;
}

void Heartbeat::resume(TimePoint now) noexcept {
    is_paused_ = false;
    expected_.reset();
    start_again(now);
}

void Heartbeat::start_again(TimePoint now) noexcept {
    for (auto& host : hosts_) {
        host.heard_at = now;
        host.ask_at = now;
    }
}

std::vector<std::size_t> Heartbeat::hosts() const {
    std::vector<std::size_t> heard;
    for (std::size_t index = 0; index < hosts_.size(); ++index) {
        if (hosts_[index].is_heard) {
            heard.push_back(index);
        }
    }
    return heard;
}

}  // namespace hvd::launch
