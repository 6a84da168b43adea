// SPDX-License-Identifier: Apache-2.0
//
// The frames of a data connection: each is a header and perhaps bytes of a message. A message goes
// from one member of a set to another, in one step of the set's schedule; both know its length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/uio.h>

namespace hvd::coll::tcp {

/// Up to here a message is sent whether the receiver has come to its step or not, longer ones once
/// it has. A receiver keeps what comes early: at most kWindow from each member of a set.
inline constexpr std::size_t kEagerBytes = std::size_t{64} << 10;
inline constexpr std::size_t kWindow = std::size_t{256} << 10;

/// Added to the length of each message when it is counted in the window.
inline constexpr std::size_t kMessageCost = 128;

/// Of a long message. Messages of different sets take turns after each frame.
inline constexpr std::size_t kFrameBytes = std::size_t{256} << 10;

/// A process set, and which one of those that have had its number.
struct SetKey {
    std::int32_t id = 0;
    std::uint32_t incarnation = 0;

    // NOLINTNEXTLINE(modernize-use-nullptr): the 0 of a defaulted comparison
    friend auto operator<=>(const SetKey&, const SetKey&) = default;
};

struct Frame {
    static constexpr std::uint16_t kMagic = 0x4856;  // "HV"

    enum class Kind : std::uint16_t {
        whole,   // a message, unasked for
        part,    // the next bytes of a message that was asked for
        grant,   // asks for a message: its memory is ready
        credit,  // `bytes` of the window are free again
    };

    std::uint16_t magic = kMagic;
    Kind kind = Kind::whole;
    SetKey set{};
    std::uint32_t step = 0;
    std::uint64_t bytes = 0;    // of the message
    std::uint64_t payload = 0;  // of the frame
};
static_assert(sizeof(Frame) == 32);

/// Pieces of memory that are being sent or received, one behind the other.
class Message {
public:
    void add(void* memory, std::size_t bytes) {
        bytes_ += bytes;
        if (bytes != 0) {
            parts_.push_back({.iov_base = memory, .iov_len = bytes});
        }
    }
    void clear() noexcept {
        parts_.clear();
        at_ = 0;
        bytes_ = 0;
        moved_ = 0;
    }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::size_t left() const noexcept { return bytes_ - moved_; }
    [[nodiscard]] bool is_done() const noexcept { return bytes_ == moved_; }

    /// Puts the next pieces into `list`, up to `limit` bytes. Returns how many pieces.
    [[nodiscard]] std::size_t next(std::span<iovec> list, std::size_t limit) const noexcept {
        std::size_t count = 0;
        for (auto at = at_; at < parts_.size() && count < list.size() && limit != 0; ++at) {
            const auto length = std::min(parts_[at].iov_len, limit);
            list[count++] = {.iov_base = parts_[at].iov_base, .iov_len = length};
            limit -= length;
        }
        return count;
    }

    void advance(std::size_t moved) noexcept {
        moved_ += moved;
        while (moved != 0) {
            auto& part = parts_[at_];
            const auto step = std::min(moved, part.iov_len);
            part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
            part.iov_len -= step;
            moved -= step;
            at_ += part.iov_len == 0 ? 1 : 0;
        }
    }

private:
    std::vector<iovec> parts_;
    std::size_t at_ = 0;  // the first part that is not done
    std::size_t bytes_ = 0;
    std::size_t moved_ = 0;
};

}  // namespace hvd::coll::tcp
