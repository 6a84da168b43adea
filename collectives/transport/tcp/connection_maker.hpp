// SPDX-License-Identifier: Apache-2.0
//
// Makes connections: calls other ranks, answers those who call, and has both ends prove who they
// are. All of it happens in handlers of a reactor; nothing here waits.
#pragma once

#include "collectives/alarm.hpp"
#include "collectives/reactor.hpp"
#include "collectives/transport/tcp/open_sockets.hpp"
#include "collectives/transport/tcp/pending_connection.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hvd::coll::net {

/// Thread: baton.
class ConnectionMaker {
public:
    using Clock = Deadline::Clock;

    /// A connection that stands.
    struct Made {
        int rank = 0;
        Purpose purpose = Purpose::control;
        UniqueFd socket{};
        ListenAddress at{};  // where the peer listens, if we have called it
        bool is_called = false;
    };

    /// Why a call came to nothing.
    struct Refusal {
        std::string reasons{};        // each address, and why
        bool nobody_listens = false;  // though a machine is there, at each
    };

    /// Who wants the connections.
    class Owner {
    public:
        virtual ~Owner() = default;
        Owner(const Owner&) = delete;
        Owner& operator=(const Owner&) = delete;

        /// Whether a connection of a rank that has called us is of use. If not, it is closed.
        [[nodiscard]] virtual bool admits(int rank, Purpose purpose) const = 0;
        virtual void on_made(Made made) = 0;
        /// The peer turned all attempts down.
        virtual void on_refused(int rank, const Refusal& refusal) = 0;
        /// Nobody who calls can be answered just now.
        virtual void on_accept_failed(const Error& why) = 0;
        /// Every `kTick` while something is under way. True: go on, whatever happens here.
        [[nodiscard]] virtual bool on_tick() = 0;

    protected:
        Owner() = default;
    };

    static constexpr std::chrono::milliseconds kTick{20};

    /// `most_callers`: how many ranks may call at the same time. `reactor` outlives it.
    ConnectionMaker(Reactor& reactor, RankIdentity self, std::size_t most_callers);
    ~ConnectionMaker();
    ConnectionMaker(const ConnectionMaker&) = delete;
    ConnectionMaker& operator=(const ConnectionMaker&) = delete;

    /// Both before the reactor is next dispatched. `owner` outlives its work.
    void work_for(Owner& owner) noexcept { owner_ = &owner; }
    void use_key(const JobKey& key) noexcept { key_ = key; }

    /// Answers those who call there.
    void listen(Listener listener);
    /// Closes the others.
    void keep_listeners(const std::function<bool(const ListenAddress& at)>& is_needed);
    [[nodiscard]] const std::vector<ListenAddress>& listening_at() const noexcept {
        return heard_at_;
    }

    /// Tries the addresses one after the other, the next soon after the last; the first that
    /// answers is used. After `rounds` in which all were refused, `on_refused`.
    void call(int peer, Purpose purpose, std::vector<ListenAddress> candidates, int rounds);

    /// Ticks until the owner has enough.
    void keep_ticking();
    /// For how long it has been ticking. Pauses of the whole process count as a tick.
    [[nodiscard]] Clock::duration elapsed() const noexcept { return elapsed_; }

    /// What has become of the attempts so far: "ADDRESS (INTERFACE): no answer yet"; empty where
    /// the peer is to call.
    [[nodiscard]] std::string attempts_at(int rank) const;

    /// From now on, beside those who have called.
    void expect(std::size_t most_callers) noexcept;

    /// The machine of the peer, which is called, has taken a connection: it is there, if late.
    [[nodiscard]] bool was_let_in(int rank) const;

    /// Gives up what is under way and closes the listeners.
    void stop();

    /// In a forked child. Async-signal-safe.
    void close_in_child() const noexcept { open_.close_all(); }

private:
    struct Call {
        int peer = 0;
        Purpose purpose = Purpose::control;
        std::vector<ListenAddress> candidates{};
        int rounds = 0;
        std::size_t next = 0;    // candidate
        bool is_silent = false;  // somebody has let us in this round, and said nothing
        bool was_let_in = false;
        Clock::time_point next_start{};
        std::vector<std::string> failures{};
        std::size_t deserted = 0;  // of them: a machine is there, but nobody listens
        bool is_over = false;
    };

    /// Somebody who has called us, or one attempt of a call.
    struct Talk {
        PendingConnection conversation;
        std::size_t call = kNoCall;  // index
        ListenAddress endpoint;      // of a call
        OpenSockets::Entry open;
        bool is_over = false;
    };
    struct Ear {
        Listener listener;
        OpenSockets::Entry open;
    };
    static constexpr std::size_t kNoCall = ~std::size_t{0};
    static constexpr std::chrono::seconds kAttemptLimit{10};  // to connect and to be answered

    void hear(const Ear& ear);
    void pause_accepting(const Error& why);
    void accept_from(int listener);
    void make_room();
    void add_talk(PendingConnection conversation, std::size_t call, const ListenAddress& endpoint);
    void on_event(Talk& talk);
    void settle(Talk& talk);
    void fail_attempt(Talk& talk, const Error& why);
    static void note_failure(Call& call, const ListenAddress& endpoint, const Error& why);
    void choose(Talk& talk);
    void give(Talk& talk);
    void end(Talk& talk);

    void tick();
    void expire(Clock::time_point now);
    void start_attempts(Clock::time_point now);
    void start_attempt(std::size_t index);
    [[nodiscard]] bool has_attempt(std::size_t call) const;
    [[nodiscard]] bool is_busy() const;

    Reactor& reactor_;
    RankIdentity self_;
    std::size_t most_talks_;
    JobKey key_{};
    Owner* owner_ = nullptr;
    OpenSockets open_;
    std::vector<Ear> ears_;
    std::vector<ListenAddress> heard_at_;  // of the ears
    Clock::time_point accepting_paused_until_{};
    bool is_accepting_paused_ = false;
    std::vector<Call> calls_;
    std::vector<std::unique_ptr<Talk>> talks_;
    Clock::duration elapsed_{};
    Clock::time_point last_tick_{};
    Alarm alarm_;
};

}  // namespace hvd::coll::net
