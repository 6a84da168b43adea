// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/reactor.hpp"
#include "collectives/transport/tcp/watched_connection.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace hvd::coll::net {

/// Accepts connections of other ranks and authenticates them, in handlers of a reactor. A process
/// that cannot authenticate itself costs no more than a place among the pending connections.
///
/// Thread: progress lock.
class Acceptor {
public:
    using Clock = Deadline::Clock;

    struct Handlers {
        /// A rank has authenticated itself. False: its connection is of no use, and is closed.
        std::function<bool(int rank, Purpose purpose)> admits;
        std::function<void(int rank, Purpose purpose, UniqueFd socket)> on_accepted;
        /// No connection can be accepted just now.
        std::function<void(const Error& why)> on_paused;
        /// `tick` has something to do from now on.
        std::function<void()> on_busy;
    };

    /// `most_ranks`: how many may connect at the same time. The references outlive it.
    Acceptor(Reactor& reactor,
             OpenSockets& open,
             const Identity& self,
             std::size_t most_ranks,
             Handlers handlers);

    /// Places that are needed in `open` besides those of the connections of ranks.
    static constexpr std::size_t kSparePlaces = 128;

    void listen(Listener listener);
    /// Closes the others.
    void keep_listeners(const std::function<bool(const ListenAddress& at)>& is_needed);
    [[nodiscard]] const std::vector<ListenAddress>& listening_at() const noexcept {
        return listening_at_;
    }
    /// How many ranks may connect from now on.
    void expect(std::size_t most_ranks) noexcept;

    /// Ends connections that are pending for too long, and an accepting that is paused.
    void tick(Clock::time_point now);
    [[nodiscard]] bool is_busy() const noexcept { return is_paused_ || !pending_.empty(); }

    /// Closes the listeners and what is pending.
    void stop();

private:
    struct OpenListener {
        Listener listener;
        OpenSockets::Entry open;
    };

    void watch(const OpenListener& listener);
    void pause(const Error& why);
    void accept_from(int listener);
    void make_room();
    void add(UniqueFd socket, const Nonce& nonce);
    void on_event(WatchedConnection& pending);

    Reactor& reactor_;
    OpenSockets& open_;
    const Identity& self_;
    std::size_t most_pending_;
    Handlers handlers_;
    std::vector<OpenListener> listeners_;
    std::vector<ListenAddress> listening_at_;
    std::vector<std::unique_ptr<WatchedConnection>> pending_;
    Clock::time_point paused_until_{};
    bool is_paused_ = false;
};

}  // namespace hvd::coll::net
