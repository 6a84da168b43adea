// SPDX-License-Identifier: Apache-2.0
#include "collectives/shm/arena.hpp"

#include "collectives/base/assert.hpp"

namespace hvd::coll::shm {

Arena::Arena(LocalGroup& group, std::size_t segment)
    : addresses(static_cast<std::size_t>(group.size())),
      group_(group),
      rank_(group.rank()),
      size_(group.size()) {
    const auto memory = group.segment(segment);
    HVD_ASSERT(memory.size() >= sizeof(RankArea) * static_cast<std::size_t>(size_),
               "the segment is as large as segment_bytes said");
    // Zero pages are valid flags and lines, whoever of the ranks comes first.
    areas_ = {reinterpret_cast<RankArea*>(memory.data()), static_cast<std::size_t>(size_)};
}

}  // namespace hvd::coll::shm
