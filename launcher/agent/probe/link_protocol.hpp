// SPDX-License-Identifier: Apache-2.0
//
// The protocol between the two ends of a measured link. The connecting end sends the first half of
// the secret, the listening end answers with the second half. Then one end sends headers of 8
// bytes, and the other answers each with the same 8 bytes, once the announced payload has arrived.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hvd::launch::agent {

inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kSecretBytes = 2 * kProofBytes;
inline constexpr std::size_t kHeaderBytes = sizeof(std::uint64_t);
inline constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 20;

/// For all of one measurement, so that neither end waits for ever when the other vanishes.
inline constexpr auto kLinkLimit = std::chrono::seconds(10);

}  // namespace hvd::launch::agent
