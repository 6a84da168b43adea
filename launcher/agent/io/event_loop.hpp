// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/unique_fd.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace hvd::launch::agent {

/// The one place where an agent waits: level-triggered readiness of descriptors. Unlike the
/// Reactor of an engine it has one thread, and one system call waits and tells what is ready.
class EventLoop final {
public:
    using Handler = std::function<void(std::uint32_t epoll_events)>;

    /// Throws Exception when the process is out of descriptors.
    EventLoop();

    /// `fd` must stay open until `forget(fd)`. Throws Exception on a bad descriptor.
    void watch(int fd, std::uint32_t epoll_events, Handler handler);
    void change(int fd, std::uint32_t epoll_events);
    void forget(int fd);

    /// Waits until something is ready or the deadline passes, and runs the handlers of what is
    /// ready. A handler may watch and forget descriptors, its own too.
    void run_once(Deadline deadline);

private:
    struct Watch {
        int fd = -1;
        bool is_forgotten = false;
        Handler handler;
    };

    UniqueFd epoll_;
    std::map<int, std::unique_ptr<Watch>> watches_;
    std::vector<std::unique_ptr<Watch>> forgotten_;  // until no event can point to them any more
};

}  // namespace hvd::launch::agent
