// SPDX-License-Identifier: Apache-2.0
//
// In the place of the shipped header: watches descriptors of the simulation.
#pragma once

#include "collectives/base/deadline.hpp"
#include "tests/simulation/engine/system.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace hvd::coll {

class Reactor {
public:
    using Handler = std::function<void(std::uint32_t epoll_events)>;

    Reactor();

    void watch(int fd, std::uint32_t epoll_events, Handler handler);
    void forget(int fd);
    [[nodiscard]] bool wait(Deadline deadline) const;
    [[nodiscard]] int descriptor() const noexcept { return fd_; }
    void dispatch();

private:
    struct Watch {
        std::uint32_t events = 0;
        std::uint64_t seen = 0;  // edges
        Handler handler;
    };
    class Table;

    std::shared_ptr<Table> table_;
    int fd_;
};

}  // namespace hvd::coll
