// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/tcp/acceptor.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

namespace hvd::coll::net {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSparePending = 64;   // of other processes, beside those of the ranks
constexpr int kAtOnce = 64;                 // accepted before anything else gets its turn
constexpr auto kAuthenticationLimit = 10s;  // from the accept
constexpr auto kPause = 1s;

}  // namespace

Acceptor::Acceptor(Reactor& reactor,
                   OpenSockets& open,
                   const Identity& self,
                   std::size_t most_ranks,
                   Handlers handlers)
    : reactor_(reactor),
      open_(open),
      self_(self),
      most_pending_(most_ranks + kSparePending),
      handlers_(std::move(handlers)) {}

void Acceptor::expect(std::size_t most_ranks) noexcept {
    most_pending_ = most_ranks + kSparePending;
}

void Acceptor::listen(Listener listener) {
    listening_at_.push_back(listener.endpoint);
    const int socket = listener.socket.get();
    listeners_.push_back({.listener = std::move(listener), .open = open_.add(socket)});
    if (!is_paused_) {
        watch(listeners_.back());
    }
}

void Acceptor::watch(const OpenListener& listener) {
    const int socket = listener.listener.socket.get();
    reactor_.watch(socket, EPOLLIN, [this, socket](std::uint32_t) { accept_from(socket); });
}

void Acceptor::keep_listeners(const std::function<bool(const ListenAddress& at)>& is_needed) {
    for (auto& each : listeners_) {
        if (!is_needed(each.listener.endpoint)) {
            reactor_.forget(each.listener.socket.get());
            each.open = {};
            each.listener.socket.reset();
        }
    }
    std::erase_if(listeners_, [](const OpenListener& each) { return !each.listener.socket; });
    std::erase_if(listening_at_, [&](const ListenAddress& at) {
        return std::ranges::none_of(
            listeners_, [&](const OpenListener& each) { return each.listener.endpoint == at; });
    });
}

/// A connection that waits in the kernel stays there, and would wake this process again and again.
void Acceptor::pause(const Error& why) {
    for (const auto& each : listeners_) {
        reactor_.forget(each.listener.socket.get());
    }
    is_paused_ = true;
    paused_until_ = Clock::now() + kPause;
    handlers_.on_busy();
    handlers_.on_paused(why);
}

void Acceptor::accept_from(int listener) {
    for (int accepted = 0; accepted < kAtOnce && !is_paused_; ++accepted) {
        UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                pause(system_error("cannot accept a connection (see `ulimit -n`)", errno));
            }
            return;  // nothing waits, or it has gone again
        }
        make_room();
        Nonce nonce{};
        if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
            pause(system_error("getrandom", errno));
            return;
        }
        add(std::move(socket), nonce);
    }
}

/// The oldest goes: a rank needs no longer than the network, and comes again if it is turned away.
void Acceptor::make_room() {
    std::erase_if(pending_, [](const auto& each) { return each->is_over; });
    if (pending_.size() >= most_pending_) {
        pending_.front()->end(reactor_);
    }
}

void Acceptor::add(UniqueFd socket, const Nonce& nonce) {
    const int descriptor = socket.get();
    pending_.push_back(std::make_unique<WatchedConnection>(WatchedConnection{
        .connection =
            PendingConnection(std::move(socket), Handshake::listening(self_.key, self_.rank, nonce),
                              Deadline::in(kAuthenticationLimit)),
        .open = open_.add(descriptor)}));
    auto& pending = *pending_.back();
    reactor_.watch(descriptor, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                   [this, &pending](std::uint32_t) { on_event(pending); });
    handlers_.on_busy();
}

void Acceptor::on_event(WatchedConnection& pending) {
    if (pending.is_over) {
        return;
    }
    if (!pending.connection.advance()) {
        pending.end(reactor_);  // no rank of this world, or one that comes again
        return;
    }
    if (!pending.connection.is_done()) {
        return;
    }
    const auto& handshake = pending.connection.handshake();
    const int rank = handshake.peer().rank;
    const auto purpose = handshake.purpose();
    if (!handlers_.admits(rank, purpose)) {
        pending.end(reactor_);
        return;
    }
    auto socket = pending.take_socket(reactor_);
    if (purpose == Purpose::probe) {
        pending.open = {};  // the handler closes it
    }
    handlers_.on_accepted(rank, purpose, std::move(socket));
    pending.open = {};
}

void Acceptor::tick(Clock::time_point now) {
    std::erase_if(pending_, [](const auto& each) { return each->is_over; });
    if (is_paused_ && now >= paused_until_) {
        is_paused_ = false;
        for (const auto& each : listeners_) {
            watch(each);
        }
    }
    for (const auto& each : pending_) {
        const auto end = each->connection.limit().end();
        if (end && *end <= now) {
            each->end(reactor_);
        }
    }
}

void Acceptor::stop() {
    for (const auto& each : pending_) {
        each->end(reactor_);
    }
    keep_listeners([](const ListenAddress&) { return false; });
}

}  // namespace hvd::coll::net
