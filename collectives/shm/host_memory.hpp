// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/algorithms/scratch.hpp"
#include "collectives/shm/arena.hpp"
#include "collectives/shm/set_memory.hpp"
#include "collectives/transport/shm/local_group.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace hvd::coll::shm {

class SetArena;

/// Which arenas of sets, but for the world, have pages in their large slots. Those that have not
/// moved a long tensor for the longest time give them back, so that a set that is idle costs some
/// pages.
class WarmList {
public:
    void use(SetArena& arena);
    void forget(const SetArena& arena) noexcept;

private:
    std::vector<SetArena*> recent_;  // the last one used last
};

/// The memory of one host's ranks for the collectives of the sets that they are in, and what those
/// share.
struct HostMemory {
    /// The group's segment number `segment` and the file behind the segments, which no one else
    /// uses. `ranks_of_group` as ranks of the world; empty: the same numbers.
    HostMemory(LocalGroup& of, std::size_t segment, std::vector<int> ranks_of_group);

    LocalGroup& group;
    std::vector<int> ranks;     // of the world, by rank of the group
    std::span<RankArea> world;  // of all ranks of the group
    SetMemory sets;
    ScratchPool scratch;
    WarmList warm;
};

}  // namespace hvd::coll::shm
