// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/connector.hpp"

#include "collectives/base/text.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/epoll.h>
#include <sys/random.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;

constexpr auto kAttemptLimit = 10s;  // to connect and to be answered
constexpr auto kStagger = 150ms;     // until the next address is tried beside the last one
constexpr auto kRoundPause = 500ms;  // after all addresses have failed

std::string describe(const ListenAddress& endpoint) {
    return to_string(endpoint) + " (" + endpoint.at.interface + ")";
}

}  // namespace

Connector::Connector(Reactor& reactor, OpenSockets& open, const Identity& self, Handlers handlers)
    : reactor_(reactor), open_(open), self_(self), handlers_(std::move(handlers)) {}

void Connector::connect(int peer,
                        Purpose purpose,
                        std::vector<ListenAddress> candidates,
                        int rounds) {
    targets_.push_back(
        {.peer = peer, .purpose = purpose, .candidates = std::move(candidates), .rounds = rounds});
    handlers_.on_busy();
    start_attempts(Clock::now());
}

void Connector::start_attempts(Clock::time_point now) {
    for (std::size_t index = 0; index < targets_.size(); ++index) {
        while (!targets_[index].is_over &&
               targets_[index].next < targets_[index].candidates.size() &&
               targets_[index].next_start <= now) {
            start_attempt(index);
        }
        auto& target = targets_[index];
        if (!target.is_over && target.next >= target.candidates.size() && !has_attempt(index)) {
            begin_round(target, now);
        }
    }
}

/// All addresses of the round before have failed.
void Connector::begin_round(Target& target, Clock::time_point now) const {
    if (!target.is_silent && --target.rounds == 0) {
        target.is_over = true;
        handlers_.on_refused(
            target.peer,
            {.reasons = join(target.failures, "; "),
             .nobody_listens = target.refusals > 0 && target.refusals == target.failures.size()});
        return;
    }
    target.next = 0;
    target.is_silent = false;
    target.next_start = now + kRoundPause;
}

void Connector::start_attempt(std::size_t index) {
    auto& target = targets_[index];
    if (target.next == 0) {
        target.failures.clear();  // of the round before
        target.refusals = 0;
    }
    const auto endpoint = target.candidates[target.next++];
    Nonce nonce{};
    if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
        target.failures.push_back(system_error("getrandom", errno).message);
        return;
    }
    auto socket = begin_connect(endpoint);
    if (!socket) {
        note_failure(target, endpoint, socket.error());
        return;
    }
    target.next_start = Clock::now() + kStagger;
    const int descriptor = socket->get();
    attempts_.push_back(std::make_unique<Attempt>(Attempt{
        .pending = {.connection =
                        PendingConnection(std::move(socket).value(),
                                          Handshake::connecting(self_.key, self_.rank, target.peer,
                                                                target.purpose, nonce),
                                          Deadline::in(kAttemptLimit)),
                    .open = open_.add(descriptor)},
        .target = index,
        .endpoint = endpoint}));
    auto& attempt = *attempts_.back();
    reactor_.watch(descriptor, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                   [this, &attempt](std::uint32_t) { on_event(attempt); });
}

bool Connector::has_attempt(std::size_t target) const {
    return std::ranges::any_of(attempts_, [&](const auto& attempt) {
        return !attempt->pending.is_over && attempt->target == target;
    });
}

void Connector::note_failure(Target& target, const ListenAddress& endpoint, const Error& why) {
    target.failures.push_back(describe(endpoint) + ": " + why.message);
    target.refusals += is_refusal(why) ? 1 : 0;
}

void Connector::on_event(Attempt& attempt) {
    auto& connection = attempt.pending.connection;
    if (attempt.pending.is_over) {
        return;
    }
    if (auto advanced = connection.advance(); !advanced) {
        fail(attempt, advanced.error());
        return;
    }
    if (connection.is_connected()) {
        targets_[attempt.target].was_accepted = true;
    }
    if (connection.handshake().is_answered()) {
        choose(attempt);
    } else if (connection.is_done()) {
        finish(attempt);
    }
}

void Connector::fail(Attempt& attempt, const Error& why) {
    attempt.pending.end(reactor_);
    auto& target = targets_[attempt.target];
    note_failure(target, attempt.endpoint, why);
    target.next_start = {};  // no reason to wait with the next one
    start_attempts(Clock::now());
}

/// The first attempt that is answered is used, and the others are given up. From here on it has all
/// the time there is: the peer may have taken the proof already, and count on this connection.
void Connector::choose(Attempt& attempt) {
    auto& target = targets_[attempt.target];
    for (const auto& other : attempts_) {
        if (other.get() != &attempt && other->target == attempt.target) {
            other->pending.end(reactor_);
        }
    }
    target.next = target.candidates.size();
    attempt.pending.connection.handshake().prove();
    attempt.pending.connection.wait_for_ever();
    on_event(attempt);
}

void Connector::finish(Attempt& attempt) {
    auto& target = targets_[attempt.target];
    target.is_over = true;
    auto socket = attempt.pending.take_socket(reactor_);
    if (target.purpose == Purpose::probe) {
        attempt.pending.open = {};  // the handler closes it
    }
    handlers_.on_connected(target.peer, target.purpose, std::move(socket), attempt.endpoint);
    attempt.pending.open = {};
}

void Connector::tick(Clock::time_point now) {
    std::erase_if(attempts_, [](const auto& attempt) { return attempt->pending.is_over; });
    // NOLINTNEXTLINE(modernize-loop-convert): the list may grow meanwhile
    for (std::size_t index = 0; index < attempts_.size(); ++index) {
        auto& attempt = *attempts_[index];
        const auto end = attempt.pending.connection.limit().end();
        if (!attempt.pending.is_over && end && *end <= now) {
            targets_[attempt.target].is_silent = true;
            fail(attempt,
                 {Errc::timed_out, "no answer in " + std::to_string(kAttemptLimit.count()) + " s"});
        }
    }
    start_attempts(now);
}

bool Connector::is_busy() const {
    return !attempts_.empty() ||
           std::ranges::any_of(targets_, [](const Target& target) { return !target.is_over; });
}

void Connector::stop() {
    for (const auto& attempt : attempts_) {
        attempt->pending.end(reactor_);
    }
    for (auto& target : targets_) {
        target.is_over = true;
    }
}

bool Connector::was_accepted(int rank) const {
    return std::ranges::any_of(
        targets_, [&](const Target& target) { return target.peer == rank && target.was_accepted; });
}

std::string Connector::attempts_at(int rank) const {
    std::vector<std::string> parts;
    for (const auto& target : targets_) {
        if (target.peer == rank && !target.is_over) {
            parts.insert(parts.end(), target.failures.begin(), target.failures.end());
        }
    }
    for (const auto& attempt : attempts_) {
        if (!attempt->pending.is_over && targets_[attempt->target].peer == rank) {
            parts.push_back(describe(attempt->endpoint) + ": no answer yet");
        }
    }
    return join(parts, "; ");
}

}  // namespace hvd::coll::net
