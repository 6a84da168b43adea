// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/alarm.hpp"
#include "collectives/reactor.hpp"
#include "collectives/transport/tcp/acceptor.hpp"
#include "collectives/transport/tcp/connector.hpp"
#include "collectives/transport/tcp/open_sockets.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace hvd::coll::net {

/// Makes authenticated connections, in both directions, and gives them to its owner. All of it
/// happens in handlers of a reactor; nothing here waits.
///
/// Thread: progress lock.
class ConnectionMaker {
public:
    using Clock = Deadline::Clock;

    /// A connection that stands.
    struct Made {
        int rank = 0;
        Purpose purpose = Purpose::control;
        UniqueFd socket{};
        std::string address{};  // "10.0.0.2:4711 (eth0)", where this rank has connected; else empty
    };

    /// Uses the connections.
    class Owner {
    public:
        virtual ~Owner() = default;
        Owner(const Owner&) = delete;
        Owner& operator=(const Owner&) = delete;

        /// Whether a connection that a rank has made is of use. If not, it is closed.
        [[nodiscard]] virtual bool admits(int rank, Purpose purpose) const = 0;
        virtual void on_made(Made made) = 0;
        /// The peer refused all attempts.
        virtual void on_refused(int rank, const Refusal& refusal) = 0;
        /// No connection can be accepted just now.
        virtual void on_accept_failed(const Error& why) = 0;
        /// Every `kTick` while something is under way. True: go on, whatever happens here.
        [[nodiscard]] virtual bool on_tick() = 0;

    protected:
        Owner() = default;
    };

    static constexpr std::chrono::milliseconds kTick{20};

    /// `most_ranks`: how many may connect at the same time. `reactor` outlives it.
    ConnectionMaker(Reactor& reactor, Identity self, std::size_t most_ranks);
    ~ConnectionMaker();
    ConnectionMaker(const ConnectionMaker&) = delete;
    ConnectionMaker& operator=(const ConnectionMaker&) = delete;

    /// Before the reactor is next dispatched. `owner` outlives its work.
    void work_for(Owner& owner) noexcept { owner_ = &owner; }

    [[nodiscard]] Acceptor& acceptor() noexcept { return acceptor_; }
    [[nodiscard]] const Acceptor& acceptor() const noexcept { return acceptor_; }
    [[nodiscard]] Connector& connector() noexcept { return connector_; }
    [[nodiscard]] const Connector& connector() const noexcept { return connector_; }

    /// Ticks until the owner has enough.
    void keep_ticking();
    /// For how long it has been ticking. Pauses of the whole process count as a tick.
    [[nodiscard]] Clock::duration elapsed() const noexcept { return elapsed_; }

    /// Gives up what is under way and closes the listeners.
    void stop();

    /// In a forked child. Async-signal-safe.
    void close_in_child() const noexcept { open_.close_all(); }

private:
    void tick();

    Identity self_;
    OpenSockets open_;
    Acceptor acceptor_;
    Connector connector_;
    Owner* owner_ = nullptr;
    Clock::duration elapsed_{};
    Clock::time_point last_tick_{};
    Alarm alarm_;
};

}  // namespace hvd::coll::net
