// SPDX-License-Identifier: Apache-2.0
//
// Which operations can be done by each rank alone once it has the inputs of all, so that these may
// travel in a proposal.
#pragma once

#include "collectives/process_set.hpp"
#include "runtime/control/payload.hpp"
#include "runtime/tensor/operation.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace hvd::rt {

inline constexpr std::size_t kNotCarried = std::numeric_limits<std::size_t>::max();

/// Bytes of the largest input of any rank to the operation, the same number on all ranks;
/// kNotCarried for Adasum, and for values that change on the way. `first_dims` as in Decision.
[[nodiscard]] std::size_t carried_bytes(const Signature& signature,
                                        std::span<const std::int64_t> first_dims) noexcept;

/// The payload of this rank's proposal of such an operation: its input, or nothing where no rank
/// reads it.
[[nodiscard]] std::span<const std::byte> payload_of(const Operation& operation,
                                                    const coll::ProcessSet& world) noexcept;

/// The part of it that this rank alone reads.
[[nodiscard]] OwnPart own_part_of(const Operation& operation,
                                  const coll::ProcessSet& world) noexcept;

/// Whether this rank reads its own input where it lies, since that part does not travel.
[[nodiscard]] bool reads_own_input(const Operation& operation) noexcept;

/// Of an alltoall: moves the inputs of all ranks on to where the part for this rank begins.
void move_to_own_parts(const Operation& operation,
                       const coll::ProcessSet& world,
                       std::span<const std::byte*> inputs) noexcept;

}  // namespace hvd::rt
