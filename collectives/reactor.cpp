// SPDX-License-Identifier: Apache-2.0
#include "collectives/reactor.hpp"

#include "collectives/base/error.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/epoll.h>

namespace hvd::coll {
namespace {

constexpr int kEventsPerDispatch = 64;  // the rest stays ready for the next dispatch

[[nodiscard]] std::uint64_t pack(int fd, std::uint32_t generation) noexcept {
    return (std::uint64_t{generation} << 32U) | static_cast<std::uint32_t>(fd);
}

}  // namespace

Reactor::Reactor() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) {
        throw Exception(system_error("cannot create an epoll descriptor (see `ulimit -n`)", errno));
    }
}

void Reactor::watch(int fd, std::uint32_t epoll_events, Handler handler) {
    epoll_event event{};
    event.events = epoll_events;
    event.data.u64 = pack(fd, ++generation_);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        throw Exception(system_error("cannot watch descriptor " + std::to_string(fd), errno));
    }
    watches_[fd] = Watch{generation_, std::move(handler)};
}

void Reactor::forget(int fd) {
    if (watches_.erase(fd) != 0) {
        // Fails only where the descriptor was closed too early, and then epoll forgot it itself.
        (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    }
}

bool Reactor::wait(Deadline deadline) const {
    pollfd ready{epoll_.get(), POLLIN, 0};
    while (true) {
        const int count = ::poll(&ready, 1, deadline.poll_timeout_ms());
        if (count > 0) {
            return true;
        }
        if (count == 0 && deadline.has_passed()) {
            return false;
        }
    }
}

void Reactor::dispatch() {
    std::array<epoll_event, kEventsPerDispatch> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerDispatch, 0);
    for (int index = 0; index < count; ++index) {
        const auto& event = events.at(static_cast<std::size_t>(index));
        const auto watch = watches_.find(static_cast<int>(event.data.u64 & 0xffffffffU));
        // A handler that ran before may have forgotten this one, or watched a new descriptor.
        if (watch == watches_.end() || watch->second.generation != event.data.u64 >> 32U) {
            continue;
        }
        // A copy, because the handler may forget itself.
        const Handler handler = watch->second.handler;
        handler(event.events);
    }
}

}  // namespace hvd::coll
