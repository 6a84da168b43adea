// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/arena.hpp"

#include <utility>

namespace hvd::coll::shm {

Arena::Arena(LocalGroup& group, std::span<RankArea> areas)
    : addresses(areas.size()),
      group_(group),
      areas_(areas),
      place_(group.rank()),
      size_(group.size()),
      is_world_(true) {}

Arena::Arena(LocalGroup& group, std::span<RankArea> areas, int place, std::vector<int> local_ranks)
    : addresses(areas.size()),
      group_(group),
      areas_(areas),
      place_(place),
      size_(static_cast<int>(areas.size())),
      is_world_(false),
      local_ranks_(std::move(local_ranks)) {}

}  // namespace hvd::coll::shm
