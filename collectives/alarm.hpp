// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "collectives/reactor.hpp"

#include <chrono>
#include <functional>

namespace hvd::coll {

/// A periodic timer: while it is set, it wakes the thread that sleeps in the reactor again and
/// again. For work that has no descriptor to sleep on, and for work with a deadline.
///
/// Thread: progress lock.
class Alarm {
public:
    /// `reactor` outlives it. Throws Exception when the process is out of descriptors.
    Alarm(Reactor& reactor, std::chrono::nanoseconds interval, std::function<void()> on_ring = {});
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    void set();
    void clear();
    [[nodiscard]] bool is_set() const noexcept { return is_set_; }

private:
    void arm(std::chrono::nanoseconds interval);

    Reactor& reactor_;
    std::chrono::nanoseconds interval_;
    std::function<void()> on_ring_;
    UniqueFd timer_;
    bool is_set_ = false;
};

}  // namespace hvd::coll
