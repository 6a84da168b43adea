// SPDX-License-Identifier: Apache-2.0
//
// How the two ends of a connection prove to each other that they belong to the same job, before
// anything else is read from it. A machine without I/O.
//
//   connecting side                       listener
//   hello  {version, purpose, from, to, pid, nonce, host}
//                                         answer {pid, nonce, host, MAC over hello and answer}
//   proof  {MAC over hello and answer}
//                                         welcome
//
// The MACs are HMAC-SHA256 with the world's key, each with another label, so that none can be
// played back to the other side; both nonces are fresh. All messages have a fixed size: nothing
// that an unauthenticated peer sends makes this process allocate.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/rendezvous/world_key.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::coll::net {

inline constexpr std::size_t kNonceBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;

/// The use of a connection between two ranks. `probe`: to see whether it can be made.
enum class Purpose : std::uint8_t { control, data, probe };
inline constexpr int kPurposes = 3;

/// A rank, as it introduces itself. Of `host`, the first 63 bytes travel.
struct RankIdentity {
    int rank = 0;
    std::int32_t pid = 0;
    std::string host;

    friend bool operator==(const RankIdentity&, const RankIdentity&) = default;
};

class Handshake {
public:
    /// The end that connects, to rank `to`.
    [[nodiscard]] static Handshake connecting(const WorldKey& key,
                                              RankIdentity self,
                                              int to,
                                              Purpose purpose,
                                              const Nonce& nonce);
    /// The end that listens.
    [[nodiscard]] static Handshake listening(const WorldKey& key,
                                             RankIdentity self,
                                             const Nonce& nonce);

    /// The bytes to send now; empty when there are none.
    [[nodiscard]] std::vector<std::byte> take_output();

    /// How many bytes to read next, and no more: what follows the handshake is not its own. 0 when
    /// nothing is expected.
    [[nodiscard]] std::size_t needed() const noexcept;

    /// Takes at most `needed()` bytes. Errors: invalid_argument for a peer without the world's
    /// key, unsupported for another version; the connection is then to be closed.
    [[nodiscard]] Status feed(std::span<const std::byte> bytes);

    /// The end that connects has seen the answer of the right peer, and holds back its proof until
    /// `prove`: of several connections, one is to be used.
    [[nodiscard]] bool is_answered() const noexcept { return state_ == State::answered; }
    void prove();

    /// Both ends have proven who they are.
    [[nodiscard]] bool is_done() const noexcept { return state_ == State::done; }
    [[nodiscard]] const RankIdentity& peer() const noexcept { return peer_; }
    [[nodiscard]] Purpose purpose() const noexcept { return purpose_; }

private:
    enum class State { expect_hello, expect_answer, answered, expect_proof, expect_welcome, done };
    using Mac = std::array<std::byte, 32>;

    Handshake(const WorldKey& key, RankIdentity self, const Nonce& nonce);
    [[nodiscard]] std::size_t expected() const noexcept;
    [[nodiscard]] Status take_hello();
    [[nodiscard]] Status take_answer();
    [[nodiscard]] Status take_proof();
    [[nodiscard]] Status take_welcome();
    [[nodiscard]] Mac mac(std::string_view label) const;

    WorldKey key_;
    RankIdentity self_;
    Nonce nonce_;
    RankIdentity peer_;
    Purpose purpose_ = Purpose::control;
    State state_ = State::expect_hello;
    std::vector<std::byte> transcript_;  // hello and answer, without the answer's MAC
    std::vector<std::byte> in_;
    std::vector<std::byte> out_;
};

}  // namespace hvd::coll::net
