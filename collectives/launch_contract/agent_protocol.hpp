// SPDX-License-Identifier: Apache-2.0
//
// The messages between a rank and its host's agent over the agent's abstract Unix socket
// (SOCK_STREAM). Both ends are in this file; it does no I/O.
//
// A frame is: length of the rest (u32), type (u8), body. The agent takes a connection only from its
// own user (SO_PEERCRED) and from a process that descends from the rank it claims to be.
//
//   rank → agent                              agent → rank
//   hello {version, job id, rank}             welcome {version}
//   put {request, key, value}                 done {request}  or  failed {request, why}
//   get {request, key}                        value {request, bytes}   once the key is there
//   report {kind, peer, text}                 (no answer)
//                                             lost {rank, why}   at any time after the welcome
#pragma once

#include "collectives/base/frames.hpp"
#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hvd::coll {

inline constexpr std::uint16_t kAgentProtocolVersion = 5;
inline constexpr std::size_t kMaxAgentFrame = std::size_t{16}
                                              << 20;  // bytes, a larger one is refused

/// Kinds of reports of a rank about itself, most of them about a failure that is to come.
enum class ReportKind : std::uint8_t {
    exception,      // an uncaught exception or a fatal error in this rank: `text` is the traceback
    peer_lost,      // it only fails because `peer` went away
    finished,       // it shut its runtime down in order
    connected,      // no failure: the addresses by which its host reaches others
    versions,       // no failure: what it runs on, in lines "NAME VERSION"
    stalled,        // it gives up since `peer` has kept it waiting for too long
    start_timeout,  // it gives up hvd.init(), to which others have not come; `text` is the limit
};

constexpr ReportKind last_of(ReportKind /*unused*/) {
    return ReportKind::start_timeout;
}

namespace agent_message {

struct Hello {
    std::uint16_t version = kAgentProtocolVersion;
    std::string job_id;
    std::int32_t rank = 0;
    friend bool operator==(const Hello&, const Hello&) = default;
};
struct Put {
    std::uint32_t request = 0;
    std::string key;
    std::vector<std::byte> value;
    friend bool operator==(const Put&, const Put&) = default;
};
struct Get {
    std::uint32_t request = 0;
    std::string key;
    friend bool operator==(const Get&, const Get&) = default;
};
struct Report {
    ReportKind kind = ReportKind::exception;
    std::int32_t peer = -1;
    std::string text;
    friend bool operator==(const Report&, const Report&) = default;
};
struct Welcome {
    std::uint16_t version = kAgentProtocolVersion;
    std::uint32_t first_world = 0;  // of this process; earlier ones of its rank had those below
    friend bool operator==(const Welcome&, const Welcome&) = default;
};
struct Done {
    std::uint32_t request = 0;
    friend bool operator==(const Done&, const Done&) = default;
};
struct Value {
    std::uint32_t request = 0;
    std::vector<std::byte> value;
    friend bool operator==(const Value&, const Value&) = default;
};
struct Failed {
    std::uint32_t request = 0;
    std::string why;
    friend bool operator==(const Failed&, const Failed&) = default;
};

/// A rank of the job is gone: what its world has begun will never end.
struct Lost {
    std::int32_t rank = 0;
    std::string why;  // a sentence that names rank and host
    friend bool operator==(const Lost&, const Lost&) = default;
};

}  // namespace agent_message

using RankMessage = std::
    variant<agent_message::Hello, agent_message::Put, agent_message::Get, agent_message::Report>;
using AgentMessage = std::variant<agent_message::Welcome,
                                  agent_message::Done,
                                  agent_message::Value,
                                  agent_message::Failed,
                                  agent_message::Lost>;

/// Keys of a job that horovod.run has started. They are no part of the store of worlds.
/// "task/call/N" is piece N (from 0) of the bytes that the caller has sent, kTaskPieceBytes but for
/// the last; empty past the end, and where there is no caller. What is put under "task/result" goes
/// to the caller, a piece of at most that size at a time.
inline constexpr std::string_view kTaskKeys = "task/";
inline constexpr std::string_view kCallKey = "task/call/";
inline constexpr std::string_view kResultKey = "task/result";
inline constexpr std::size_t kTaskPieceBytes = std::size_t{1} << 20U;

/// The beginning of the keys of a world, "world/0/", and the world of a key, if it has one. The
/// ranks of a job count their worlds alike.
[[nodiscard]] std::string world_prefix(int world);
[[nodiscard]] std::optional<int> world_of(std::string_view key);

/// A rank in a world that the launcher has put together.
struct WorldMember {
    std::int32_t rank = 0;  // as the launcher numbers the ranks of the job
    std::int32_t host = 0;  // equal on the ranks of one host
    friend bool operator==(const WorldMember&, const WorldMember&) = default;
};

/// Nobody puts a value under this key of a world: the launcher answers a `get` of it with the ranks
/// that have not ended, in order, once all of these have asked. Under --on-failure wait alone.
[[nodiscard]] std::string members_key(int world);
[[nodiscard]] bool is_members_key(std::string_view key);
[[nodiscard]] std::vector<std::byte> encode_members(const std::vector<WorldMember>& members);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<std::vector<WorldMember>> decode_members(std::span<const std::byte> bytes);

/// A whole frame, ready to send.
[[nodiscard]] std::vector<std::byte> encode(const RankMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const AgentMessage& message);

/// Takes bytes as they arrive and gives whole messages. After an Error the connection is of no use.
template <class Message>
class FrameReader {
public:
    void feed(std::span<const std::byte> bytes) { buffer_.feed(bytes); }

    /// The next whole message, nothing when more bytes are needed, or what was malformed.
    [[nodiscard]] Result<std::optional<Message>> next();

private:
    FrameBuffer buffer_;
};

extern template class FrameReader<RankMessage>;
extern template class FrameReader<AgentMessage>;

}  // namespace hvd::coll
