// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/reactor.hpp"
#include "collectives/transport/tcp/watched_connection.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::coll::net {

/// Why a rank could not be connected to.
struct Refusal {
    std::string reasons{};        // each address, and why
    bool nobody_listens = false;  // though a machine is there, at each
};

/// Connects to other ranks, in handlers of a reactor: tries the addresses of a rank one soon after
/// the other, and uses the first that answers.
///
/// Thread: progress lock.
class Connector {
public:
    using Clock = Deadline::Clock;

    struct Handlers {
        std::function<void(int rank, Purpose purpose, UniqueFd socket, const ListenAddress& at)>
            on_connected;
        /// The peer refused all attempts.
        std::function<void(int rank, const Refusal& refusal)> on_refused;
        /// `tick` has something to do from now on.
        std::function<void()> on_busy;
    };

    /// The references outlive it.
    Connector(Reactor& reactor, OpenSockets& open, const Identity& self, Handlers handlers);

    /// After `rounds` in which all addresses refused, `on_refused`.
    void connect(int peer, Purpose purpose, std::vector<ListenAddress> candidates, int rounds);

    /// The attempts so far: "ADDRESS (INTERFACE): no answer yet"; empty where this rank does not
    /// connect to the peer.
    [[nodiscard]] std::string attempts_at(int rank) const;

    /// The machine of the peer has accepted a connection: it is there, if late.
    [[nodiscard]] bool was_accepted(int rank) const;

    /// Ends attempts that have no answer, and starts the next ones.
    void tick(Clock::time_point now);
    [[nodiscard]] bool is_busy() const;

    /// Gives up what is under way.
    void stop();

private:
    /// All attempts to reach one rank for one purpose.
    struct Target {
        int peer = 0;
        Purpose purpose = Purpose::control;
        std::vector<ListenAddress> candidates{};
        int rounds = 0;
        std::size_t next = 0;    // candidate
        bool is_silent = false;  // in this round a machine has accepted, and then said nothing
        bool was_accepted = false;
        Clock::time_point next_start{};
        std::vector<std::string> failures{};
        std::size_t refusals = 0;  // of them: a machine is there, but nobody listens
        bool is_over = false;
    };
    struct Attempt {
        WatchedConnection pending;
        std::size_t target = 0;  // index
        ListenAddress endpoint{};
    };

    void start_attempts(Clock::time_point now);
    void start_attempt(std::size_t index);
    void begin_round(Target& target, Clock::time_point now) const;
    void on_event(Attempt& attempt);
    void fail(Attempt& attempt, const Error& why);
    static void note_failure(Target& target, const ListenAddress& endpoint, const Error& why);
    void choose(Attempt& attempt);
    void finish(Attempt& attempt);
    [[nodiscard]] bool has_attempt(std::size_t target) const;

    Reactor& reactor_;
    OpenSockets& open_;
    const Identity& self_;
    Handlers handlers_;
    std::vector<Target> targets_;
    std::vector<std::unique_ptr<Attempt>> attempts_;
};

}  // namespace hvd::coll::net
