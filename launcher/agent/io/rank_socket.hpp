// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "collectives/launch_contract/agent_protocol.hpp"
#include "launcher/agent/io/control_stream.hpp"
#include "launcher/agent/io/event_loop.hpp"
#include "launcher/agent/io/report_gate.hpp"
#include "launcher/agent/processes/process_table.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The abstract Unix socket through which ranks reach their agent (collectives/
/// launch_contract/agent_protocol.hpp): keys go on to the launcher and come back, reports that
/// speak for a rank (ReportGate) go on. Any process of this machine may connect to it; what is not
/// of our user, not of our job or not below the rank that it claims to be is refused, and whatever
/// it sends costs it no more than its own connection.
class RankSocket final {
public:
    using PidOfRank = std::function<std::optional<pid_t>(int rank)>;

    RankSocket(EventLoop& loop, ControlStream& control, std::string job_id, PidOfRank pid_of_rank);

    /// Errors: invalid_argument or unavailable, when the name cannot be had.
    [[nodiscard]] Status listen(const std::string& name);

    /// HostProbe to what was sent to the launcher.
    void on(const wire::PutDone& done);
    void on(const wire::GetValue& value);

    /// Tells it to the ranks that are connected, and to those that connect later.
    void on(const wire::PeerLost& lost);

    /// Passes on what the rank has still told, and closes its connections.
    void rank_ended(int rank);

    /// Passes on the reports whose time has come.
    void time_passed(std::chrono::steady_clock::time_point now);
    [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const {
        return reports_.deadline();
    }

private:
    using ConnectionId = std::uint64_t;

    struct Connection {
        UniqueFd fd;
        pid_t pid = 0;
        std::optional<int> rank;       // once it has said hello
        std::vector<Process> lineage;  // then, up to the process that was started as the rank
        coll::FrameReader<coll::RankMessage> reader;
        std::vector<std::byte> unsent;
        bool is_waiting_to_write = false;
    };

    /// Those that the processes of a rank have entered.
    struct Worlds {
        pid_t pid = 0;            // of its latest process
        std::uint32_t first = 0;  // of that
        std::uint32_t next = 0;   // after all of them
    };

    struct Request {
        ConnectionId connection = 0;
        std::uint32_t number = 0;  // as the rank counts
    };

    void accept();
    void evict_unauthenticated();
    void on_ready(ConnectionId id, std::uint32_t epoll_events);
    enum class ReadResult { some, nothing, end };
    [[nodiscard]] static ReadResult read(Connection& connection);
    [[nodiscard]] bool handle_messages(ConnectionId id);
    [[nodiscard]] bool greet(Connection& connection, const coll::RankMessage& first);
    [[nodiscard]] Result<std::vector<Process>> identify(
        const Connection& connection,
        const coll::agent_message::Hello& hello) const;
    [[nodiscard]] std::uint32_t first_world_of(ConnectionId id);
    void note_world(const Connection& connection, std::string_view key);
    void pass_on(ConnectionId id, coll::RankMessage& message);
    [[nodiscard]] std::uint32_t remember(ConnectionId id, std::uint32_t number);
    void answer(std::uint32_t request, coll::AgentMessage message);
    void send(ConnectionId id, const coll::AgentMessage& message);
    void write(Connection& connection);
    void close(ConnectionId id);

    EventLoop& loop_;
    ControlStream& control_;
    std::string job_id_;
    PidOfRank pid_of_rank_;
    UniqueFd listener_;
    std::map<ConnectionId, Connection> connections_;  // in the order in which they came
    ConnectionId next_connection_ = 0;
    std::map<std::uint32_t, Request> requests_;  // sent to the launcher and not answered
    std::uint32_t next_request_ = 0;
    std::vector<coll::agent_message::Lost> lost_;  // of the job
    std::map<int, Worlds> worlds_;                 // by rank
    ReportGate reports_;
};

}  // namespace hvd::launch::agent
