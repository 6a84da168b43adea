// SPDX-License-Identifier: Apache-2.0
#include "collectives/alarm.hpp"

#include "collectives/base/error.hpp"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace hvd::coll {

Alarm::Alarm(Reactor& reactor, std::chrono::nanoseconds interval, std::function<void()> on_ring)
    : reactor_(reactor),
      interval_(interval),
      on_ring_(std::move(on_ring)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    if (!timer_) {
        throw Exception(system_error("timerfd_create", errno));
    }
    reactor_.watch(timer_.get(), EPOLLIN, [this](std::uint32_t) {
        std::uint64_t rings = 0;
        // Nothing is there where another thread has been faster.
        const auto bytes = ::read(timer_.get(), &rings, sizeof(rings));
        if (bytes > 0 && is_set_ && on_ring_) {
            on_ring_();
        }
    });
}

Alarm::~Alarm() {
    reactor_.forget(timer_.get());
}

void Alarm::set() {
    if (!is_set_) {
        is_set_ = true;
        arm(interval_);
    }
}

void Alarm::clear() {
    if (is_set_) {
        is_set_ = false;
        arm(std::chrono::nanoseconds(0));
    }
}

void Alarm::arm(std::chrono::nanoseconds interval) {
    itimerspec when{};
    when.it_interval.tv_nsec = interval.count();  // less than a second
    when.it_value = when.it_interval;
    // It cannot fail: the descriptor is ours, and the times are in range.
    (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

}  // namespace hvd::coll
