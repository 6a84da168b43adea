// SPDX-License-Identifier: Apache-2.0
//
// How the two ends of a connection prove to each other that they belong to one job, where no agent
// hands out a key.
#pragma once

#include "collectives/base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hvd::coll::store {

enum class Authentication : std::uint8_t {
    none,   // any process is accepted
    key,    // both know a secret
    munge,  // both are of the same user, as the munge daemons of their hosts say
};

/// Thread: one at a time.
class Authenticator {
public:
    virtual ~Authenticator() = default;
    Authenticator(const Authenticator&) = delete;
    Authenticator& operator=(const Authenticator&) = delete;

    [[nodiscard]] virtual Authentication kind() const noexcept = 0;

    /// A statement names the speaker's side and the nonces of both; a proof is good for no other.
    /// Errors: unavailable.
    [[nodiscard]] virtual Result<std::vector<std::byte>> prove(
        std::span<const std::byte> statement) = 0;

    /// Errors: invalid_argument when the proof is not of the statement or not of this job.
    [[nodiscard]] virtual Status check(std::span<const std::byte> statement,
                                       std::span<const std::byte> proof) = 0;

protected:
    Authenticator() = default;
};

[[nodiscard]] std::unique_ptr<Authenticator> create_open_authenticator();

/// HMAC-SHA256. The secret may have any length.
[[nodiscard]] std::unique_ptr<Authenticator> create_key_authenticator(
    std::span<const std::byte> secret);

/// Credentials that only this user can decode, by the library libmunge.so.2 and the daemon at
/// `socket`, or its usual one where that is empty. Errors: unavailable when one of them is not
/// there.
[[nodiscard]] Result<std::unique_ptr<Authenticator>> create_munge_authenticator(
    const std::string& socket);

/// How the ends authenticate themselves; the same on all ranks.
struct Credentials {
    Authentication kind = Authentication::none;
    std::vector<std::byte> secret{};  // of `key`
    std::string munge_socket{};       // of `munge`; empty: the usual one
};
[[nodiscard]] Result<std::unique_ptr<Authenticator>> create_authenticator(
    const Credentials& credentials);

}  // namespace hvd::coll::store
