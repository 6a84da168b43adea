// SPDX-License-Identifier: Apache-2.0
//
// Changes of the process sets, as blocking calls of all ranks.
#pragma once

#include "runtime/engine/engine.hpp"

#include <vector>

namespace hvd::rt {

/// The result of adding a process set.
struct AddedSet {
    int id = -1;         // of the new set, or of the equal one that exists
    bool is_new = true;  // false: a set with these ranks exists already
    Outcome outcome = Outcome::finished;
};

/// Adds the set of `ranks` of the world. Every rank calls it, with the same ranks in the same order
/// of calls. Errors: invalid_argument for ranks that are none of the world; mismatch where the
/// ranks disagree.
[[nodiscard]] Result<AddedSet> add_process_set(Engine& engine,
                                               TicketTable& tickets,
                                               const std::vector<int>& ranks,
                                               Deadline deadline);

/// Removes a set. Every rank calls it, with the same id. Errors: invalid_argument for an id that no
/// set has, and for the world's; mismatch.
[[nodiscard]] Result<Outcome> remove_process_set(Engine& engine,
                                                 TicketTable& tickets,
                                                 int id,
                                                 Deadline deadline);

}  // namespace hvd::rt
