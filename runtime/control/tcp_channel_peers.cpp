// SPDX-License-Identifier: Apache-2.0
//
// Waking, missing and leaving the peers of a TcpChannel.
#include "collectives/base/deadline.hpp"
#include "runtime/control/tcp_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <sys/epoll.h>

namespace hvd::rt {
namespace {

constexpr std::chrono::seconds kLeaveLimit{1};

}  // namespace

void TcpChannel::watch(coll::Reactor& reactor) {
    outer_ = &reactor;
    about_to_sleep(true);
    if (news_ != nullptr) {
        reactor.watch(news_->failure_descriptor(), EPOLLIN, [this](std::uint32_t) { hear_news(); });
    }
}

// While a caller drives the engine it looks at the links itself: nothing else need be woken.
void TcpChannel::about_to_sleep(bool /*expects*/) noexcept {
    if (outer_ != nullptr && !std::exchange(is_watched_, true)) {
        outer_->watch(mesh_.reactor().descriptor(), EPOLLIN,
                      [this](std::uint32_t) { (void)flush(); });
    }
}

void TcpChannel::awake() noexcept {
    if (outer_ != nullptr && std::exchange(is_watched_, false)) {
        outer_->forget(mesh_.reactor().descriptor());
    }
}

void TcpChannel::take_leave(int peer, const frame::Leave& leave) {
    members_[static_cast<std::size_t>(peer)].has_said_goodbye = true;
    if (leave.lost >= 0 && leave.lost != rank_) {
        // It leaves only because another rank is gone, which we may not have noticed yet.
        set_lost(leave.lost, {Errc::unavailable, leave.why});
    }
    if (coordinates()) {
        publish(frame::Left{.rank = peer, .finished = leave.finished});
    } else if (peer == 0) {
        departed_.push_back({.rank = 0, .finished = leave.finished});  // the sequence ends here
    }
}

Error TcpChannel::death_of(int peer) const {
    const int error_number = mesh_.peer(peer).control.error_number();
    if (error_number == 0 || error_number == ECONNRESET || error_number == EPIPE) {
        return {Errc::unavailable, mesh_.describe(peer) + " has died"};
    }
    auto error =
        system_error("the connection with " + mesh_.describe(peer) + " is broken", error_number);
    error.code = Errc::unavailable;
    return error;
}

void TcpChannel::lose(int peer) {
    auto& member = members_[static_cast<std::size_t>(peer)];
    member.is_gone = true;
    member.out.clear();
    if (!member.has_said_goodbye) {
        set_lost(peer, death_of(peer));
    }
}

void TcpChannel::set_lost(int peer, Error error) {
    if (lost_) {
        return;
    }
    if (coordinates()) {
        send_to_all(frame::Lost{.rank = peer, .why = error.message});
    }
    lost_ = Trouble{.peer = peer, .error = std::move(error), .in_flight = true};
}

void TcpChannel::hear_news() {
    while (true) {
        const auto loss = news_->next_failure();
        if (!loss) {
            // Who told us is gone, and its descriptor would be readable for ever.
            outer_->forget(news_->failure_descriptor());
            return;
        }
        if (!*loss) {
            return;
        }
        lose_by_news(**loss);
    }
}

void TcpChannel::lose_by_news(const coll::PeerFailure& loss) {
    if (loss.rank < 0 || loss.rank >= size_ || loss.rank == rank_) {
        return;
    }
    (void)flush();  // what it said before its end counts, a goodbye most of all
    if (!members_[static_cast<std::size_t>(loss.rank)].has_said_goodbye) {
        set_lost(loss.rank, {Errc::unavailable, loss.why});
        (void)pump();
    }
}

std::optional<Channel::Trouble> TcpChannel::trouble() {
    if (lost_) {
        return lost_;
    }
    if (departed_.empty() || !events_.empty()) {
        return std::nullopt;
    }
    // The first to leave is the cause; the others may have left because of it.
    const bool all_finished =
        std::ranges::all_of(departed_, [](const Departure& each) { return each.finished; });
    const int first = departed_.front().rank;
    return Trouble{.peer = first,
                   .error = {Errc::aborted, mesh_.describe(first) + " has shut down"},
                   .in_flight = !all_finished};
}

void TcpChannel::leave(bool finished) noexcept {
    const frame::Leave last{.finished = finished,
                            .lost = lost_ ? lost_->peer : -1,
                            .why = lost_ ? lost_->error.message : std::string()};
    send_to_all(last);
    const auto limit = Deadline::in(kLeaveLimit);
    (void)pump();
    while (has_output() && !limit.has_passed()) {
        (void)mesh_.reactor().wait(limit);
        (void)flush();
    }
}

}  // namespace hvd::rt
