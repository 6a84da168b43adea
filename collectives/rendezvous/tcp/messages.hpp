// SPDX-License-Identifier: Apache-2.0
//
// The messages between a store client and its server, once each has authenticated the other. Pure.
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hvd::coll::store {

/// How a rank introduces itself.
struct Member {
    int rank = 0;
    int size = 1;         // of the world, as its launcher says
    int local_rank = -1;  // -1: its launcher does not say
    int local_size = -1;
    std::int32_t pid = 0;
    std::string host;  // its name, for messages
    std::string node;  // equal for the ranks of one host

    friend bool operator==(const Member&, const Member&) = default;
};

/// "rank 3 (pid 812 on host node2)".
[[nodiscard]] std::string describe(const Member& member);

/// The key under which the server puts encode_membership of all ranks, in order, once all have
/// joined.
inline constexpr std::string_view kMembershipKey = "membership";
[[nodiscard]] std::vector<std::byte> encode_membership(const std::vector<Member>& members);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<std::vector<Member>> decode_membership(std::span<const std::byte> bytes);

struct Put {
    std::uint32_t request = 0;
    std::string key{};
    std::vector<std::byte> value{};
    friend bool operator==(const Put&, const Put&) = default;
};
struct Get {
    std::uint32_t request = 0;
    std::string key{};
    friend bool operator==(const Get&, const Get&) = default;
};
/// Asks for the ranks that have not joined yet; the Value is a text.
struct Absent {
    std::uint32_t request = 0;
    friend bool operator==(const Absent&, const Absent&) = default;
};
using Request = std::variant<Member, Put, Get, Absent>;

/// Empty as the reply to a Put. A Member has no reply, unless it is refused: Failed with request 0.
struct Value {
    std::uint32_t request = 0;
    std::vector<std::byte> bytes{};
    friend bool operator==(const Value&, const Value&) = default;
};
struct Failed {
    std::uint32_t request = 0;
    std::string why{};
    Errc code = Errc::invalid_argument;
    friend bool operator==(const Failed&, const Failed&) = default;
};
using Reply = std::variant<Value, Failed>;

[[nodiscard]] std::vector<std::byte> encode(const Request& request);
[[nodiscard]] std::vector<std::byte> encode(const Reply& reply);
/// Errors: internal for malformed bytes.
[[nodiscard]] Result<Request> decode_request(std::span<const std::byte> bytes);
[[nodiscard]] Result<Reply> decode_reply(std::span<const std::byte> bytes);

}  // namespace hvd::coll::store
