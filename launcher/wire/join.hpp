// SPDX-License-Identifier: Apache-2.0
//
// How an agent that dials its launcher and the launcher prove to each other that they know the
// job's token, before anything else is read from the connection. A machine without I/O.
//
//   who listens (launcher)                who joins (agent)
//   greeting {magic, nonce}
//                                         proof {magic, nonce, MAC}
//   verdict {accepted, MAC}
//                      both: encrypted records (encryption.hpp)
//   answer {error}                        introduction {build, name, host, slots}
//
// From the token: K = BLAKE2b-256(text). From K and both nonces, each with another label:
// BLAKE2b-256 keyed with K over label, listener's nonce, joiner's nonce. Two of them are the MACs,
// so that none can be played back to the other side or in another connection; two are the keys of
// the two directions. This is the usual challenge and response with a shared key (ISO/IEC 9798-4,
// three passes), with the key derivation of libsodium's crypto_kx (one hash, a key for each
// direction). The joiner proves first, so that an unauthenticated peer gets nothing to try tokens
// on. There is no forward secrecy: the token, which is made for one job, decrypts recorded traffic.
#pragma once

#include "collectives/base/result.hpp"
#include "launcher/wire/encryption.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch::wire {

using JoinNonce = std::array<std::byte, 32>;

/// A token of 64 hexadecimal digits, and the nonce of a connection: random.
[[nodiscard]] std::string make_join_token();
[[nodiscard]] JoinNonce make_join_nonce();

/// The key that a token file's text stands for; blanks and line ends around it do not count.
/// Errors: invalid_argument, for less than 32 characters.
[[nodiscard]] Result<Key> join_key(std::string_view text);

class JoinHandshake final {
public:
    [[nodiscard]] static JoinHandshake listening(const Key& token, const JoinNonce& nonce);
    [[nodiscard]] static JoinHandshake joining(const Key& token, const JoinNonce& nonce);

    /// The bytes to send now, also after an Error, which the other end gets.
    [[nodiscard]] std::vector<std::byte> take_output();

    /// How many bytes to read next, and no more: what follows is encrypted. 0: nothing is expected.
    [[nodiscard]] std::size_t needed() const noexcept;

    /// Takes at most `needed()` bytes. Errors, after which the connection is to be closed:
    /// unsupported, for another version; invalid_argument, for another program or token.
    [[nodiscard]] Status feed(std::span<const std::byte> bytes);

    /// Both ends have proven that they know the token.
    [[nodiscard]] bool is_done() const noexcept { return state_ == State::done; }
    [[nodiscard]] SessionKeys keys() const;

    /// The streams of this end, with keys that no other connection has.
    [[nodiscard]] Encryption encryption() const;

private:
    enum class State : std::uint8_t { expect_greeting, expect_proof, expect_verdict, done, failed };

    JoinHandshake(const Key& token, const JoinNonce& nonce, State state);
    [[nodiscard]] std::size_t expected() const noexcept;
    [[nodiscard]] Status check_magic() const;
    [[nodiscard]] Status take();
    [[nodiscard]] Key derive(std::string_view label) const;

    Key token_;
    State state_;
    bool is_listener_;
    JoinNonce listeners_{};
    JoinNonce joiners_{};
    std::vector<std::byte> in_;
    std::vector<std::byte> out_;
};

/// The first words of who joins.
struct Introduction {
    std::string build_id;
    std::string name;  // of the host in the job
    std::string hostname;
    std::int32_t slots = 0;  // 0: as many as it has

    friend bool operator==(const Introduction&, const Introduction&) = default;
};

/// Whether it may stay. Builds meet here: these two messages never change.
struct JoinAnswer {
    std::string error;  // empty: welcome

    friend bool operator==(const JoinAnswer&, const JoinAnswer&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const Introduction& introduction);
[[nodiscard]] std::vector<std::byte> encode(const JoinAnswer& answer);

/// Takes the message off the begin of `plain`; nothing when more bytes are needed. Errors:
/// invalid_argument.
[[nodiscard]] Result<std::optional<Introduction>> take_introduction(std::vector<std::byte>& plain);
[[nodiscard]] Result<std::optional<JoinAnswer>> take_join_answer(std::vector<std::byte>& plain);

}  // namespace hvd::launch::wire
