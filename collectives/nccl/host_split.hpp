// SPDX-License-Identifier: Apache-2.0
//
// How the members of a process set on several hosts share an allreduce. Pure.
#pragma once

#include "collectives/process_set.hpp"

namespace hvd::coll::nccl {

/// Messages are cut into equal parts. Each part is reduced across the hosts by one member of each.
struct HostSplit {
    ProcessSet inside;  // the members on this host
    ProcessSet across;  // those with the part of this member; none, where this one has no part
    int parts = 1;

    [[nodiscard]] bool has_part() const noexcept { return across.is_member(); }

    /// Whether each member on this host has a part; otherwise the first one has the whole message.
    [[nodiscard]] bool is_scattered() const noexcept { return parts == inside.size(); }
};

/// As many parts as each host has members; where they differ, one part, which the first member of
/// each host has. The number of `across` is negative, as of no other set.
[[nodiscard]] HostSplit split_by_host(const ProcessSet& set);

}  // namespace hvd::coll::nccl
