// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/host_split.hpp"

#include <algorithm>
#include <cstddef>

namespace hvd::coll::nccl {

HostSplit split_by_host(const ProcessSet& set) {
    const auto rows = places_by_host(set.hosts);
    const auto width = rows.front().size();
    const bool is_even =
        std::ranges::all_of(rows, [&](const auto& row) { return row.size() == width; });
    const auto own = std::ranges::find_if(
        rows, [&](const auto& row) { return std::ranges::find(row, set.place) != row.end(); });
    HostSplit split{.inside = members_at(set, *own), .across = {}};
    split.across.place = -1;
    split.parts = is_even ? static_cast<int>(width) : 1;
    if (split.inside.place < split.parts) {
        std::vector<int> column;
        column.reserve(rows.size());
        for (const auto& row : rows) {
            column.push_back(row[static_cast<std::size_t>(split.inside.place)]);
        }
        split.across = members_at(set, column);
        split.across.id = -1 - set.id;
    }
    return split;
}

}  // namespace hvd::coll::nccl
