// SPDX-License-Identifier: Apache-2.0
//
// One connection to a store server, without I/O: both ends authenticate themselves, and then all
// messages are encrypted with keys of this connection.
//
//   client                          server
//   hello  {version, kind, fresh public key, job}
//                                   answer {fresh public key, proof}
//   proof
//   encrypted messages              encrypted messages
//
// The proofs are over a hash of all messages so far, with a label for each side; the public keys
// (X25519) are the nonces. Before the proof no more than 8 KiB are kept for a connection.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/rendezvous/tcp/authenticator.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hvd::coll::store {

class Session {
public:
    enum class Side : std::uint8_t { client, server };

    /// `job` is no secret: it tells jobs apart that use one port.
    Session(Side side, Authenticator& authenticator, std::string job);

    /// The bytes to send now.
    [[nodiscard]] std::vector<std::byte> take_output();

    /// Takes the bytes that came. Errors: invalid_argument (an unauthenticated peer), unavailable
    /// (another job's server, or another program), unsupported; the connection is then to be closed
    /// once `take_output` is sent.
    [[nodiscard]] Status feed(std::span<const std::byte> bytes);

    /// Both ends have authenticated themselves.
    [[nodiscard]] bool is_ready() const noexcept { return state_ == State::ready; }

    /// The next message from the other end. Errors: invalid_argument when it was tampered with.
    [[nodiscard]] Result<std::optional<std::vector<std::byte>>> next();

    /// Only when ready.
    void send(std::span<const std::byte> message);

private:
    static constexpr std::size_t kKeyBytes = 32;
    using Key = std::array<unsigned char, kKeyBytes>;
    enum class State : std::uint8_t { expect_hello, expect_answer, expect_proof, ready, failed };
    enum class Frame : std::uint8_t { hello, answer, proof, encrypted, refusal };

    [[nodiscard]] Status take(Frame type, std::span<const std::byte> body);
    [[nodiscard]] Status take_hello(std::span<const std::byte> body);
    [[nodiscard]] Status take_answer(std::span<const std::byte> body);
    [[nodiscard]] Status take_proof(std::span<const std::byte> body);
    [[nodiscard]] Status derive_keys(std::span<const std::byte> peer);
    [[nodiscard]] std::vector<std::byte> statement(Side speaker) const;
    void put(Frame type, std::span<const std::byte> body);
    [[nodiscard]] Error fail(Error error);
    [[nodiscard]] Error not_a_peer() const;

    Side side_;
    Authenticator& authenticator_;
    std::string job_;
    State state_;
    Key public_{};
    Key secret_{};
    std::array<std::byte, kKeyBytes> guest_{};  // public keys
    std::array<std::byte, kKeyBytes> host_{};
    Key receive_{};
    Key transmit_{};
    std::uint64_t received_ = 0;
    std::uint64_t sent_ = 0;
    std::vector<std::byte> in_;
    std::vector<std::byte> out_;
    std::vector<std::vector<std::byte>> messages_;  // encrypted, in order
    std::size_t next_message_ = 0;
};

}  // namespace hvd::coll::store
