// SPDX-License-Identifier: Apache-2.0
#include "launcher/wire/frames.hpp"

#include "collectives/base/bytes.hpp"
#include "launcher/wire/fields.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hvd::launch::wire {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::string_view kWhere = "control stream";

// The type byte is the place of the message in its variant. Builds never mix, but Hello must stay
// the first and keep its fields, so that any launcher can say which build the agent is.
template <class Message>
constexpr std::uint8_t kFirstType = std::is_same_v<Message, FromAgent> ? 1 : 129;

[[nodiscard]] Error malformed(const std::string& why) {
    return Error{Errc::internal, std::string(kWhere) + ": " + why};
}

template <class Message>
[[nodiscard]] std::vector<std::byte> encode_any(const Message& message) {
    const auto body = encode_variant<kFirstType<Message>>(message);
    ByteWriter frame;
    frame.number(static_cast<std::uint32_t>(body.size()));
    frame.raw(body);
    return frame.take();
}

}  // namespace

std::vector<std::byte> encode(const FromAgent& message) {
    return encode_any(message);
}

std::vector<std::byte> encode(const ToAgent& message) {
    return encode_any(message);
}

std::vector<std::byte> encode_output_header(const Output& empty, std::size_t size) {
    auto frame = encode(FromAgent{empty});
    const auto announce = [&](std::size_t position, std::size_t value) {
        const auto number = static_cast<std::uint32_t>(value);
        std::memcpy(frame.data() + position, &number, sizeof number);
    };
    announce(0, frame.size() - kLengthBytes + size);
    announce(frame.size() - kLengthBytes, size);
    return frame;
}

template <class Message>
void FrameReader<Message>::feed(std::span<const std::byte> bytes) {
    if (taken_ > 0) {
        buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(taken_));
        taken_ = 0;
    }
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

template <class Message>
Result<std::optional<Message>> FrameReader<Message>::next() {
    if (!greeted_) {
        const std::string_view begin(reinterpret_cast<const char*>(buffer_.data()),
                                     std::min(buffer_.size(), kMagic.size()));
        if (!kMagic.starts_with(begin)) {
            return malformed("it does not begin with " + std::string(kMagic) +
                             ": the other end is no horovodrun or hvd-agent, or something else "
                             "writes to its standard output");
        }
        if (begin.size() < kMagic.size()) {
            return std::optional<Message>{};
        }
        greeted_ = true;
        taken_ = kMagic.size();
    }
    const auto unread = std::span<const std::byte>(buffer_).subspan(taken_);
    if (unread.size() < kLengthBytes) {
        return std::optional<Message>{};
    }
    std::uint32_t length = 0;
    std::memcpy(&length, unread.data(), kLengthBytes);
    if (length == 0 || length > kMaxFrame) {
        return malformed("frame of " + std::to_string(length) + " bytes (1 to " +
                         std::to_string(kMaxFrame) + " are allowed)");
    }
    if (unread.size() - kLengthBytes < length) {
        return std::optional<Message>{};
    }
    const auto body = unread.subspan(kLengthBytes, length);
    const auto where = std::string(kWhere) + ": frame of type " +
                       std::to_string(std::to_integer<int>(body.front()));
    auto message = decode_variant<kFirstType<Message>, Message>(body, where);
    if (!message) {
        return message.error();
    }
    taken_ += kLengthBytes + length;
    return std::optional<Message>{*std::move(message)};
}

template class FrameReader<FromAgent>;
template class FrameReader<ToAgent>;

}  // namespace hvd::launch::wire
