// SPDX-License-Identifier: Apache-2.0
//
// What ranks say to each other over their control links. A frame is: length of the rest (u32), type
// (u8), body. No I/O.
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hvd::rt {

namespace frame {

// To the coordinator.
struct Announce {
    std::vector<std::byte> message;
    friend bool operator==(const Announce&, const Announce&) = default;
};
struct Mark {
    std::uint64_t heard = 0;  // events that the sender knew
    std::vector<std::uint32_t> ids;
    friend bool operator==(const Mark&, const Mark&) = default;
};

// From the coordinator: the sequence of events.
struct Decided {
    bool more = false;
    std::vector<std::byte> message;
    friend bool operator==(const Decided&, const Decided&) = default;
};
struct Invalidated {
    std::uint32_t id = 0;
    friend bool operator==(const Invalidated&, const Invalidated&) = default;
};
struct Ready {
    std::vector<std::uint32_t> ids;
    friend bool operator==(const Ready&, const Ready&) = default;
};
struct Left {
    std::int32_t rank = 0;
    bool finished = false;
    friend bool operator==(const Left&, const Left&) = default;
};
/// Not part of the sequence.
struct Lost {
    std::int32_t rank = 0;
    std::string why;
    friend bool operator==(const Lost&, const Lost&) = default;
};

// To the coordinator, and from it: the last word.
struct Leave {
    bool finished = false;
    std::int32_t lost = -1;  // the rank whose loss is why
    std::string why;
    friend bool operator==(const Leave&, const Leave&) = default;
};

using Any = std::variant<Announce, Mark, Decided, Invalidated, Ready, Left, Leave, Lost>;

}  // namespace frame

/// A whole frame, ready to send.
[[nodiscard]] std::vector<std::byte> encode(const frame::Any& message);

/// Takes bytes as they arrive and gives whole messages. After an Error the connection is of no use.
class FrameReader {
public:
    void feed(std::span<const std::byte> bytes);

    /// The next whole message, nothing when more bytes are needed, or what was malformed.
    [[nodiscard]] Result<std::optional<frame::Any>> next();

private:
    std::vector<std::byte> buffer_;
    std::size_t taken_ = 0;
};

}  // namespace hvd::rt
