// SPDX-License-Identifier: Apache-2.0
//
// From tensor groups that are ready together to collectives, and from these to operations that have
// ended.
#pragma once

#include "runtime/execution/lane.hpp"
#include "runtime/tensor/ticket_table.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace hvd::rt {

/// The members of the groups, given by their leaders, as batches of up to so many bytes. From here
/// on each member ends by `complete_member`.
[[nodiscard]] std::vector<Batch> fuse(std::span<Operation* const> leaders, std::size_t bytes);

/// A member has been run, or has failed. The members of a group end together, when the last of them
/// has been run, and alike.
void complete_member(TicketTable& tickets, Operation& operation);

/// Each operation fails with the cause and its own name.
void fail_batch(TicketTable& tickets, const Batch& batch, const Error& cause);

}  // namespace hvd::rt
