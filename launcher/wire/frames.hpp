// SPDX-License-Identifier: Apache-2.0
//
// Messages ↔ bytes. A stream begins with kMagic (8 bytes) from either side; each frame after it is:
// length of the rest (u32), type (u8), body, all little-endian. A frame longer than kMaxFrame, an
// unknown type, or a body that is too short or too long ends the session with an Error.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/wire/messages.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hvd::launch::wire {

inline constexpr std::string_view kMagic = "HVDWIRE1";
inline constexpr std::size_t kMaxFrame = std::size_t{64} << 20;  // bytes

/// A whole frame, ready to send. The magic goes before the first one.
[[nodiscard]] std::vector<std::byte> encode(const FromAgent& message);
[[nodiscard]] std::vector<std::byte> encode(const ToAgent& message);

/// The begin of the frame of an Output with `size` bytes, which are sent after it from where they
/// lie. `empty` has none.
[[nodiscard]] std::vector<std::byte> encode_output_header(const Output& empty, std::size_t size);

/// Takes bytes as they arrive, checks the magic, gives whole messages. After an Error the stream is
/// of no use.
template <class Message>
class FrameReader {
public:
    void feed(std::span<const std::byte> bytes);

    /// The next whole message, nothing when more bytes are needed, or what was malformed.
    [[nodiscard]] Result<std::optional<Message>> next();

private:
    std::vector<std::byte> buffer_;
    std::size_t taken_ = 0;
    bool greeted_ = false;
};

extern template class FrameReader<FromAgent>;
extern template class FrameReader<ToAgent>;

}  // namespace hvd::launch::wire
