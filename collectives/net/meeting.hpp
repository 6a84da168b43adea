// SPDX-License-Identifier: Apache-2.0
//
// How a Mesh comes to be: the ranks leave their addresses in the store; the lowest ranks of the
// hosts, their scouts, find out by which addresses each two hosts reach each other; then all ranks
// connect by these, and prove who they are. One thread, one reactor, one deadline.
#pragma once

#include "collectives/net/conversation.hpp"
#include "collectives/net/mesh.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvd::coll::net {

class Meeting {
public:
    Meeting(const MeshOptions& options, Deadline deadline);

    [[nodiscard]] Result<std::unique_ptr<Mesh>> run(Store& store);

private:
    using Clock = Deadline::Clock;

    /// The way to one lane of a lower rank: its addresses are tried one after the other, the next
    /// soon after the last, and the first that answers is used.
    struct Call {
        int peer = 0;
        Lane lane = Lane::control;
        std::vector<Endpoint> candidates{};
        std::size_t next = 0;  // candidate
        int round = 0;
        Clock::time_point next_start{};
        std::vector<std::string> failures{};
        bool is_over = false;
    };

    /// Somebody who has connected, or one attempt of a call.
    struct Talk {
        Conversation conversation;
        std::size_t call = kNoCall;  // index
        Endpoint endpoint;           // of a call
        bool is_over = false;
    };
    static constexpr std::size_t kNoCall = ~std::size_t{0};
    static constexpr std::chrono::seconds kAttemptLimit{10};  // to connect and to be answered

    [[nodiscard]] Status open_listeners();
    [[nodiscard]] Status exchange_records(Store& store);
    [[nodiscard]] Status exchange_key(Store& store);

    // In meeting_ways.cpp: by which addresses.
    [[nodiscard]] Status find_ways(Store& store);
    [[nodiscard]] Status scout();
    [[nodiscard]] Status hear_from_scout(Store& store);
    void keep_listeners_on_ways();
    [[nodiscard]] const Way* way_to(int rank) const;
    [[nodiscard]] std::vector<Endpoint> ways_to(int rank) const;
    [[nodiscard]] std::vector<HostWay> host_ways() const;
    [[nodiscard]] int own_scout() const;
    [[nodiscard]] bool is_scout() const { return own_scout() == options_.rank; }

    [[nodiscard]] Status plan_call(int rank);
    [[nodiscard]] Status connect_rest();
    [[nodiscard]] Status connect_awaited();
    [[nodiscard]] bool is_awaited(int rank) const;

    void accept_from(int listener);
    void add_talk(Conversation conversation, std::size_t call, const Endpoint& endpoint);
    void on_event(Talk& talk);
    void settle(Talk& talk);
    void fail_attempt(Talk& talk, const std::string& why);
    void choose(Talk& talk);
    void finish_call(Talk& talk);
    void end(Talk& talk);
    void keep(Talk& talk);

    void start_attempts(Clock::time_point now);
    void start_attempt(std::size_t index);
    void expire(Clock::time_point now);
    [[nodiscard]] bool has_attempt(std::size_t call) const;
    [[nodiscard]] std::optional<Clock::time_point> next_event() const;
    [[nodiscard]] bool is_complete() const;
    [[nodiscard]] Error missing() const;
    [[nodiscard]] Error unreachable(const Call& call) const;
    [[nodiscard]] std::string attempts_at(int rank) const;
    [[nodiscard]] std::string describe(int rank) const;
    [[nodiscard]] LinkIdentity self() const;

    MeshOptions options_;
    Deadline deadline_;
    JobKey key_{};
    std::vector<HostAddress> addresses_;
    RankRecord own_;
    std::vector<RankRecord> records_;  // by rank
    std::vector<int> scouts_;          // by rank: of its host
    std::vector<Way> ways_;            // to each host, the own one included
    bool is_scouting_ = false;         // only the control links between scouts are awaited
    Reactor reactor_;
    std::vector<Listener> listeners_;
    std::vector<Call> calls_;
    std::vector<std::unique_ptr<Talk>> talks_;
    std::vector<std::array<UniqueFd, kLanes>> sockets_;  // by rank
    std::vector<std::string> used_;                      // by rank: the address
    std::optional<Error> broken_;
};

}  // namespace hvd::coll::net
