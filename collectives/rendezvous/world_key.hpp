// SPDX-License-Identifier: Apache-2.0
//
// The secret of one world: its ranks prove with it that they belong together, and derive from it
// what other users must not guess.
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/result.hpp"
#include "collectives/rendezvous/store.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace hvd::coll {

inline constexpr std::size_t kWorldKeyBytes = 32;
using WorldKey = std::array<std::byte, kWorldKeyBytes>;

/// Errors: as of system_error.
[[nodiscard]] Result<WorldKey> random_world_key();

/// Rank 0 draws the key and puts it into the store as "PREFIXkey", the others get it from there.
/// Errors: timed_out, unavailable; internal for a malformed value.
[[nodiscard]] Result<WorldKey> share_world_key(Store& store,
                                               const std::string& prefix,
                                               int rank,
                                               Deadline deadline);

/// A key for one purpose. It tells nothing about the world's key or about those of other purposes.
[[nodiscard]] WorldKey derive_key(const WorldKey& key, std::string_view purpose);

/// The same as 64 hexadecimal digits.
[[nodiscard]] std::string derive_name(const WorldKey& key, std::string_view purpose);

}  // namespace hvd::coll
