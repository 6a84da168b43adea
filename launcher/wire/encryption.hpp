// SPDX-License-Identifier: Apache-2.0
//
// A control stream over a network that others can read and write. Each direction is a stream of
// libsodium's crypto_secretstream_xchacha20poly1305 under a separate key: a header, then
// records of length of the plain text (u32, little-endian) and cipher text. A record that was
// changed, left out, repeated or moved does not decrypt. The last record has the tag FINAL, so the
// receiver notices also a connection that is cut between two records.
#pragma once

#include "collectives/base/result.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <sodium/crypto_secretstream_xchacha20poly1305.h>

namespace hvd::launch::wire {

using Key = std::array<std::byte, crypto_secretstream_xchacha20poly1305_KEYBYTES>;

/// Of one connection.
struct SessionKeys {
    Key to_launcher{};
    Key to_agent{};
};

inline constexpr std::size_t kMaxRecord = std::size_t{64} << 10;  // bytes of plain text

/// The sending end of one direction.
class Encryptor final {
public:
    explicit Encryptor(const Key& key);

    /// Both parts one behind the other, in as many records as they need. Not after `finish`.
    [[nodiscard]] std::vector<std::byte> encrypt(std::span<const std::byte> first,
                                                 std::span<const std::byte> second = {});

    /// The last record; nothing when it is there already.
    [[nodiscard]] std::vector<std::byte> finish();

    [[nodiscard]] bool is_finished() const noexcept { return is_finished_; }

private:
    void append(std::span<const std::byte> text, unsigned char tag);

    crypto_secretstream_xchacha20poly1305_state state_{};
    std::vector<std::byte> out_;  // the header at first
    bool is_finished_ = false;
};

/// The receiving end of one direction.
class Decryptor final {
public:
    explicit Decryptor(const Key& key) : key_(key) {}

    /// The plain text of all records that are complete. Errors: invalid_argument, when a record
    /// does not decrypt, announces an impossible length, or comes after the last one; then the
    /// stream is of no use.
    [[nodiscard]] Result<std::vector<std::byte>> decrypt(std::span<const std::byte> bytes);

    /// How many bytes the header, length or record at hand still lacks. Fewer bytes complete
    /// nothing, and more may belong to the next record.
    [[nodiscard]] std::size_t needed() const noexcept;

    /// The last record has come. A connection that ends before it was cut.
    [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

private:
    [[nodiscard]] std::size_t next_size() const noexcept;

    Key key_;
    crypto_secretstream_xchacha20poly1305_state state_{};
    bool has_header_ = false;
    bool has_ended_ = false;
    std::vector<std::byte> buffer_;
};

/// Both directions, as one end of a connection has them.
struct Encryption {
    Encryptor encryptor;
    Decryptor decryptor;
};

/// A connection that ended before the last record of its stream.
[[nodiscard]] Error stream_cut();

}  // namespace hvd::launch::wire
