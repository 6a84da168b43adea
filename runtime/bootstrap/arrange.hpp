// SPDX-License-Identifier: Apache-2.0
//
// The place of a rank among all, from the descriptions of all. Pure.
#pragma once

#include "collectives/base/result.hpp"
#include "collectives/rendezvous/tcp/messages.hpp"
#include "collectives/topology.hpp"

#include <span>

namespace hvd::rt {

/// `membership` is by rank. Hosts count in the order of their lowest ranks. Where a launcher does
/// not say which rank of its host one is, the order of ranks does. Errors: invalid_argument when
/// the ranks of a host do not fit together.
[[nodiscard]] Result<coll::Topology> arrange(std::span<const coll::store::Member> membership,
                                             int rank);

}  // namespace hvd::rt
