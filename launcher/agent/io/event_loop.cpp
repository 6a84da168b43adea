// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/io/event_loop.hpp"

#include "collectives/base/error.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include <sys/epoll.h>

namespace hvd::launch::agent {
namespace {

constexpr int kEventsPerRound = 64;  // the rest stays ready for the next round

}  // namespace

EventLoop::EventLoop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) {
        throw Exception(system_error("epoll_create", errno));
    }
}

void EventLoop::watch(int fd, std::uint32_t epoll_events, Handler handler) {
    auto watch = std::make_unique<Watch>();
    watch->fd = fd;
    watch->handler = std::move(handler);
    epoll_event event{};
    event.events = epoll_events;
    event.data.ptr = watch.get();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        throw Exception(system_error("cannot watch descriptor " + std::to_string(fd), errno));
    }
    watches_[fd] = std::move(watch);
}

void EventLoop::change(int fd, std::uint32_t epoll_events) {
    epoll_event event{};
    event.events = epoll_events;
    event.data.ptr = watches_.at(fd).get();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
        throw Exception(system_error("cannot watch descriptor " + std::to_string(fd), errno));
    }
}

void EventLoop::forget(int fd) {
    const auto found = watches_.find(fd);
    if (found == watches_.end()) {
        return;
    }
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    found->second->is_forgotten = true;
    forgotten_.push_back(std::move(found->second));
    watches_.erase(found);
}

void EventLoop::run_once(Deadline deadline) {
    std::array<epoll_event, kEventsPerRound> events{};
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), kEventsPerRound, deadline.poll_timeout_ms());
    for (int index = 0; index < count; ++index) {
        const auto& event = events.at(static_cast<std::size_t>(index));
        auto& watch = *static_cast<Watch*>(event.data.ptr);
        if (!watch.is_forgotten) {
            watch.handler(event.events);
        }
    }
    forgotten_.clear();
}

}  // namespace hvd::launch::agent
