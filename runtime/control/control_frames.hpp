// SPDX-License-Identifier: Apache-2.0
//
// The frames that ranks send over their control connections. A frame is: length of the rest (u32),
// type (u8), body. No I/O.
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
struct SetReady {
    std::uint64_t last = 0;  // number of the last log entry that the sender has read
    std::vector<std::uint32_t> ids;
    friend bool operator==(const SetReady&, const SetReady&) = default;
};
/// The sender wants to leave, by an entry in the log.
struct AnnounceLeave {
    friend bool operator==(const AnnounceLeave&, const AnnounceLeave&) = default;
};

// From the coordinator: entries of the log, by number. A rank gets those of the sets it is in.
struct Decided {
    std::uint64_t number = 0;
    std::int32_t process_set = 0;
    bool more = false;
    std::vector<std::byte> message;
    friend bool operator==(const Decided&, const Decided&) = default;
};
struct Invalidated {
    std::uint64_t number = 0;
    std::uint32_t id = 0;
    friend bool operator==(const Invalidated&, const Invalidated&) = default;
};
struct Ready {
    std::uint64_t number = 0;
    bool of_world = false;
    std::int32_t last_rank = -1;  // that has set its ready bits last
    std::vector<std::uint32_t> ids;
    friend bool operator==(const Ready&, const Ready&) = default;
};
struct Left {
    std::uint64_t number = 0;
    std::int32_t rank = 0;
    friend bool operator==(const Left&, const Left&) = default;
};

// To the coordinator, and from it, outside of the log.

/// The last frame of a rank.
struct Goodbye {
    bool finished = false;
    std::int32_t lost = -1;  // the rank whose loss is why
    std::string why;
    friend bool operator==(const Goodbye&, const Goodbye&) = default;
};
/// From the coordinator: a rank has sent its last frame, or is lost.
struct Gone {
    std::int32_t rank = 0;
    bool finished = false;
    friend bool operator==(const Gone&, const Gone&) = default;
};
struct Lost {
    std::int32_t rank = 0;
    std::string why;
    friend bool operator==(const Lost&, const Lost&) = default;
};

using Any = std::variant<Announce,
                         SetReady,
                         AnnounceLeave,
                         Decided,
                         Invalidated,
                         Ready,
                         Left,
                         Goodbye,
                         Gone,
                         Lost>;

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
