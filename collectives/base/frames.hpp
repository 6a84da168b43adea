// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// A frame is its length (u32) and so many bytes.
[[nodiscard]] inline std::vector<std::byte> frame_of(std::span<const std::byte> body) {
    const auto length = static_cast<std::uint32_t>(body.size());
    std::vector<std::byte> frame(sizeof length);
    std::memcpy(frame.data(), &length, sizeof length);
    frame.insert(frame.end(), body.begin(), body.end());
    return frame;
}

/// Takes the bytes of a stream as they arrive and gives whole frames.
class FrameBuffer {
public:
    /// Invalidates what `next` gave.
    void feed(std::span<const std::byte> bytes) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
        taken_ = 0;
        buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    }

    /// The body of the next whole frame, or nothing when more bytes are needed. `where` begins the
    /// error. Errors: internal for a frame that is empty or longer than `max_bytes`; the stream is
    /// then of no use.
    [[nodiscard]] Result<std::optional<std::span<const std::byte>>> next(std::size_t max_bytes,
                                                                         std::string_view where) {
        using Next = std::optional<std::span<const std::byte>>;
        const auto unread = std::span<const std::byte>(buffer_).subspan(taken_);
        std::uint32_t length = 0;
        if (unread.size() < sizeof length) {
            return Next{};
        }
        std::memcpy(&length, unread.data(), sizeof length);
        if (length == 0 || length > max_bytes) {
            return Error{Errc::internal, std::string(where) + ": frame of " +
                                             std::to_string(length) + " bytes (1 to " +
                                             std::to_string(max_bytes) + " are allowed)"};
        }
        if (unread.size() - sizeof length < length) {
            return Next{};
        }
        taken_ += sizeof length + length;
        return Next{unread.subspan(sizeof length, length)};
    }

private:
    std::vector<std::byte> buffer_;
    std::size_t taken_ = 0;
};

}  // namespace hvd
