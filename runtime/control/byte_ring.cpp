// SPDX-License-Identifier: Apache-2.0
#include "runtime/control/byte_ring.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace hvd::rt {
namespace {

constexpr std::size_t kMaxMessage = std::size_t{1} << 30;

using Length = std::uint32_t;

}  // namespace

void RingWriter::put(std::span<const std::byte> message) {
    const auto length = static_cast<Length>(message.size());
    const auto* raw = reinterpret_cast<const std::byte*>(&length);
    waiting_.insert(waiting_.end(), raw, raw + sizeof length);
    waiting_.insert(waiting_.end(), message.begin(), message.end());
}

bool RingWriter::flush() noexcept {
    bool moved = false;
    while (sent_ < waiting_.size()) {
        const auto written = ring_.written.load(std::memory_order_relaxed);
        auto room = ByteRing::kBytes - (written - ring_.read.load(std::memory_order_acquire));
        if (room == 0) {
            // Either the reader sees `starved` after it made room, or we see the room.
            ring_.starved.store(1, std::memory_order_seq_cst);
            room = ByteRing::kBytes - (written - ring_.read.load(std::memory_order_seq_cst));
            if (room == 0) {
                return moved;
            }
        }
        const std::size_t place = written % ByteRing::kBytes;
        const auto count = std::min(
            {static_cast<std::size_t>(room), waiting_.size() - sent_, ByteRing::kBytes - place});
        std::memcpy(ring_.bytes.data() + place, waiting_.data() + sent_, count);
        sent_ += count;
        ring_.written.store(written + count, std::memory_order_release);
        moved = true;
    }
    waiting_.clear();
    sent_ = 0;
    return moved;
}

void RingReader::drain() {
    const auto read = ring_.read.load(std::memory_order_relaxed);
    const auto available =
        static_cast<std::size_t>(ring_.written.load(std::memory_order_acquire) - read);
    if (available == 0) {
        return;
    }
    if (taken_ == buffer_.size()) {
        buffer_.clear();
        taken_ = 0;
    }
    const std::size_t place = read % ByteRing::kBytes;
    const auto first = std::min(available, ByteRing::kBytes - place);
    const auto* bytes = ring_.bytes.data();
    buffer_.insert(buffer_.end(), bytes + place, bytes + place + first);
    buffer_.insert(buffer_.end(), bytes, bytes + (available - first));
    ring_.read.store(read + available, std::memory_order_seq_cst);
    made_room_ = true;
}

Result<std::optional<std::vector<std::byte>>> RingReader::next() {
    drain();
    const auto rest = std::span(buffer_).subspan(taken_);
    Length length = 0;
    if (rest.size() < sizeof length) {
        return std::optional<std::vector<std::byte>>{};
    }
    std::memcpy(&length, rest.data(), sizeof length);
    if (length > kMaxMessage) {
        return Error{Errc::internal,
                     "control ring: a message of " + std::to_string(length) + " bytes"};
    }
    if (rest.size() - sizeof length < length) {
        return std::optional<std::vector<std::byte>>{};
    }
    const auto body = rest.subspan(sizeof length, length);
    taken_ += sizeof length + length;
    return std::optional(std::vector<std::byte>(body.begin(), body.end()));
}

bool RingReader::must_wake_writer() noexcept {
    return std::exchange(made_room_, false) &&
           ring_.starved.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace hvd::rt
