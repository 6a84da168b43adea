// SPDX-License-Identifier: Apache-2.0
//
// A control stream over a network that others can read and write. Each record is: length of the
// plain text (u32, little-endian), cipher text, tag. The AEAD is XChaCha20-Poly1305 of libsodium,
// with the length as additional data and the number of the record as nonce, and with a key of its
// own for each direction: a record that was changed, left out, repeated or moved, also from the
// other direction, does not open. A stream that is cut between two records cannot be told from one
// that ended there; the protocol above has a last message for that.
#pragma once

#include "collectives/base/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hvd::launch::wire {

using Key = std::array<std::byte, 32>;

/// Of one connection.
struct SessionKeys {
    Key to_launcher{};
    Key to_agent{};
};

inline constexpr std::size_t kMaxRecord = std::size_t{64} << 10;  // bytes of plain text

/// What one end writes.
class Sealer final {
public:
    explicit Sealer(const Key& key) : key_(key) {}

    /// Both parts one behind the other, in as many records as they need.
    [[nodiscard]] std::vector<std::byte> seal(std::span<const std::byte> first,
                                              std::span<const std::byte> second = {});

private:
    Key key_;
    std::uint64_t count_ = 0;
};

/// What the other end reads.
class Opener final {
public:
    explicit Opener(const Key& key) : key_(key) {}

    /// The plain text of all records that are whole now. Errors: invalid_argument, when a record
    /// does not open or announces an impossible length; then the stream is of no use.
    [[nodiscard]] Result<std::vector<std::byte>> open(std::span<const std::byte> bytes);

    /// No record has begun and not ended. A stream that ends otherwise was cut.
    [[nodiscard]] bool is_between_records() const noexcept { return buffer_.empty(); }

private:
    Key key_;
    std::uint64_t count_ = 0;
    std::vector<std::byte> buffer_;
};

/// Both directions, as one end has them.
struct Seals {
    Sealer sealer;
    Opener opener;
};

}  // namespace hvd::launch::wire
