// SPDX-License-Identifier: Apache-2.0
//
// The messages between the ranks of one host while they form a group, one SOCK_SEQPACKET packet
// each. Private to this folder, pure.
//
//   member → leader                               leader → member
//   hello {rank, size, key, ...} + descriptor     refused {code, text}: the end, at any time
//   received, after each `members`                members {first, pids} + descriptors, repeatedly
//                                                 go, once every rank has everything
#pragma once

#include "collectives/base/error.hpp"
#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hvd::coll::join_message {

struct Hello {
    std::int32_t rank = 0;
    std::int32_t size = 0;
    std::int32_t launcher = 0;
    std::vector<std::byte> key;
    std::vector<std::uint64_t> segments;
    friend bool operator==(const Hello&, const Hello&) = default;
};
struct Received {
    friend bool operator==(const Received&, const Received&) = default;
};
struct Refused {
    Errc code = Errc::internal;
    std::string text;
    friend bool operator==(const Refused&, const Refused&) = default;
};
/// Descriptors beside it: with first == 0 the shared memory; then a wake-up descriptor and a pidfd
/// for each pid.
struct Members {
    std::int32_t first = 0;
    std::vector<std::int32_t> pids;
    friend bool operator==(const Members&, const Members&) = default;
};
struct Go {
    friend bool operator==(const Go&, const Go&) = default;
};

using Message = std::variant<Hello, Received, Refused, Members, Go>;

[[nodiscard]] std::vector<std::byte> encode(const Message& message);
[[nodiscard]] Result<Message> decode(std::span<const std::byte> packet);

}  // namespace hvd::coll::join_message
