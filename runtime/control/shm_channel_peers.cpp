// SPDX-License-Identifier: Apache-2.0
//
// Waking, missing and leaving the peers of a ShmChannel.
#include "runtime/control/shm_channel.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

namespace hvd::rt {

void ShmChannel::watch(coll::Reactor& reactor) {
    reactor.watch(group_.wakeup_descriptor(), EPOLLIN, [this](std::uint32_t) { group_.drain(); });
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) {
            continue;
        }
        const int pidfd = group_.peer_pidfd(peer);
        reactor.watch(pidfd, EPOLLIN, [this, &reactor, pidfd](std::uint32_t) {
            reactor.forget(pidfd);  // it stays readable
            (void)find_dead();
        });
    }
}

void ShmChannel::about_to_sleep(bool expects) noexcept {
    // Who expects nothing need not be rung, and saves itself and its peers two trips of the line
    // in which sleepers are noted.
    const bool has_output = !late_ready_.empty() || !verdicts_.empty() || answers_wait_;
    if (!expects && !has_output) {
        return;
    }
    if (proposed_) {
        page(rank_).heads[round_ & 1].asleep.store(1, std::memory_order_relaxed);
    }
    sleep_announced_ = true;
    group_.about_to_sleep();
    if (has_output) {
        (void)flush();  // who made room before did not ring
    }
}

void ShmChannel::awake() noexcept {
    if (!std::exchange(sleep_announced_, false)) {
        return;
    }
    if (proposed_) {
        page(rank_).heads[round_ & 1].asleep.store(0, std::memory_order_relaxed);
    }
    group_.awake();
}

std::optional<Channel::Trouble> ShmChannel::find_dead() {
    for (int peer = 0; peer < size_ && !lost_; ++peer) {
        if (peer == rank_) {
            continue;
        }
        pollfd ended{.fd = group_.peer_pidfd(peer), .events = POLLIN, .revents = 0};
        if (::poll(&ended, 1, 0) == 1 && (ended.revents & POLLIN) != 0 &&
            page(peer).left.load(std::memory_order_acquire) == 0) {
            lost_ = Trouble{.peer = peer,
                            .error = {Errc::unavailable, "rank " + std::to_string(peer) + " (pid " +
                                                             std::to_string(group_.pid(peer)) +
                                                             " on host " + host_ + ") has died"},
                            .in_flight = true};
        }
    }
    return lost_;
}

std::optional<Channel::Trouble> ShmChannel::trouble() {
    if (lost_) {
        return lost_;
    }
    // The first to leave is the cause; the others may have left because of it.
    int first = -1;
    std::uint32_t order = 0;
    bool all_finished = true;
    for (int peer = 0; peer < size_; ++peer) {
        const auto word = page(peer).left.load(std::memory_order_acquire);
        if (peer == rank_ || word == 0) {
            continue;
        }
        const auto departure = Departure::from(word);
        all_finished = all_finished && departure.finished;
        if (first < 0 || departure.order < order) {
            first = peer;
            order = departure.order;
        }
    }
    if (first < 0) {
        return std::nullopt;
    }
    // Who left may be the victim of a rank that has died.
    if (auto dead = find_dead()) {
        return dead;
    }
    return Trouble{.peer = first,
                   .error = {Errc::aborted, "rank " + std::to_string(first) + " (pid " +
                                                std::to_string(group_.pid(first)) + " on host " +
                                                host_ + ") has shut down"},
                   .in_flight = !all_finished};
}

void ShmChannel::leave(bool finished) noexcept {
    const Departure departure{
        .finished = finished,
        .order = shared_.departures.fetch_add(1, std::memory_order_acq_rel) + 1};
    page(rank_).left.store(departure.word(), std::memory_order_release);
    group_.notify_others();
}

bool ShmChannel::crowded() {
    if (crowded_) {
        return *crowded_;
    }
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const auto& other : pages_) {
        if (other.has_cpus.load(std::memory_order_acquire) == 0) {
            return true;  // not known yet: yield rather than spin
        }
        CPU_OR(&all, &all, &other.cpus);
    }
    crowded_ = CPU_COUNT(&all) < size_;
    return *crowded_;
}

}  // namespace hvd::rt
