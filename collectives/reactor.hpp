// SPDX-License-Identifier: Apache-2.0
//
// The one place where an engine sleeps. Backends and control channels register what may wake it.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/unique_fd.hpp"

#include <cstdint>
#include <functional>
#include <unordered_map>

namespace hvd::coll {

/// Level-triggered readiness of descriptors.
///
/// Sleeping and handling are apart, because the engine's thread sleeps without the progress lock
/// while a blocking caller may drive the engine with it: `wait` only waits, `dispatch` runs the
/// handlers.
class Reactor {
public:
    using Handler = std::function<void(std::uint32_t epoll_events)>;

    /// Throws Exception when the process is out of descriptors.
    Reactor();

    /// Thread: progress lock. `fd` must stay open until `forget(fd)`. Throws Exception on a bad
    /// descriptor.
    void watch(int fd, std::uint32_t epoll_events, Handler handler);
    void forget(int fd);

    /// Blocks until a watched descriptor is ready (true) or the deadline passes (false).
    /// Thread: any; needs no lock, changes nothing.
    [[nodiscard]] bool wait(Deadline deadline) const;

    /// Readable while a watched descriptor is ready: so one reactor can watch another.
    [[nodiscard]] int descriptor() const noexcept { return epoll_.get(); }

    /// Runs the handlers of what is ready now. Never blocks. Thread: progress lock. A handler may
    /// watch and forget descriptors.
    void dispatch();

private:
    struct Watch {
        std::uint32_t generation = 0;  // tells a descriptor from an earlier one of the same number
        Handler handler;
    };

    UniqueFd epoll_;
    std::uint32_t generation_ = 0;
    std::unordered_map<int, Watch> watches_;
};

}  // namespace hvd::coll
