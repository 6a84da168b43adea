// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/reactor.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <cstdint>
#include <utility>

#include <sys/epoll.h>

namespace hvd::rt {

/// The sleep of this rank, as those know it that share its host's memory. The group outlives it.
///
/// Thread: progress lock.
class GroupSleep {
public:
    explicit GroupSleep(coll::LocalGroup& group) noexcept : group_(group) {}

    /// From here on a notification of the group ends a wait of the reactor, which is not dispatched
    /// after the end of this object.
    void watch(coll::Reactor& reactor) {
        reactor.watch(group_.wakeup_descriptor(), EPOLLIN,
                      [this](std::uint32_t) { group_.drain(); });
    }

    /// From here on the others notify this rank, which then looks once more before it sleeps.
    void announce() noexcept {
        is_announced_ = true;
        group_.about_to_sleep();
    }

    /// Whether the sleep had been announced.
    [[nodiscard]] bool end() noexcept {
        if (!std::exchange(is_announced_, false)) {
            return false;
        }
        group_.awake();
        return true;
    }

private:
    coll::LocalGroup& group_;
    bool is_announced_ = false;
};

}  // namespace hvd::rt
