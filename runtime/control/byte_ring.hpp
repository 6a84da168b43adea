// SPDX-License-Identifier: Apache-2.0
//
// A stream of messages through shared memory, from one process that writes to one that reads.
#pragma once

#include "collectives/base/result.hpp"
#include "runtime/control/shared_atomic.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace hvd::rt {

/// The shared part. All zero is an empty ring.
struct ByteRing {
    static constexpr std::size_t kBytes = std::size_t{64} << 10;

    alignas(128) SharedAtomic<std::uint64_t> written;  // bytes, ever
    alignas(128) SharedAtomic<std::uint64_t> read;     // bytes, ever
    SharedAtomic<std::uint32_t> starved;               // the writer waits for room
    alignas(128) std::array<std::byte, kBytes> bytes;
};

/// The writing end. What does not fit waits here, so that a message may be larger than the ring.
class RingWriter {
public:
    explicit RingWriter(ByteRing& ring) noexcept : ring_(ring) {}

    void put(std::span<const std::byte> message);

    /// True if bytes moved.
    [[nodiscard]] bool flush() noexcept;

    [[nodiscard]] bool is_waiting() const noexcept { return sent_ < waiting_.size(); }

private:
    ByteRing& ring_;
    std::vector<std::byte> waiting_;
    std::size_t sent_ = 0;  // of waiting_
};

/// The reading end.
class RingReader {
public:
    explicit RingReader(ByteRing& ring) noexcept : ring_(ring) {}

    /// The next whole message. Errors: internal for a length that cannot be.
    [[nodiscard]] Result<std::optional<std::vector<std::byte>>> next();

    /// Whether there are bytes that `next` has not taken yet.
    [[nodiscard]] bool has_input() const noexcept {
        return ring_.written.load(std::memory_order_acquire) !=
               ring_.read.load(std::memory_order_relaxed);
    }

    /// True once after the writer had to wait and there is room again: wake it.
    [[nodiscard]] bool must_wake_writer() noexcept;

private:
    void drain();

    ByteRing& ring_;
    std::vector<std::byte> buffer_;
    std::size_t taken_ = 0;  // of buffer_
    bool made_room_ = false;
};

}  // namespace hvd::rt
