// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "collectives/reactor.hpp"

#include <chrono>

namespace hvd::coll::mpi {

/// Wakes whoever sleeps in the reactor again and again while it is set: MPI has no descriptor to
/// sleep on, and makes progress only while it is called.
///
/// Thread: baton.
class Alarm {
public:
    static constexpr std::chrono::microseconds kInterval{50};

    /// `reactor` outlives it. Throws Exception when the process is out of descriptors.
    explicit Alarm(Reactor& reactor);
    ~Alarm();
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;

    void set();
    void clear();

private:
    void arm(std::chrono::nanoseconds interval);

    Reactor& reactor_;
    UniqueFd timer_;
    bool is_set_ = false;
};

}  // namespace hvd::coll::mpi
