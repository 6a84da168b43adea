// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/process_set.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace hvd::coll {

/// A set's members as a table: a row for each host, with as many members as every other row.
class HostGrid {
public:
    /// Nothing for a set on one host, for one with a single member on each, and for one whose hosts
    /// have different numbers of members.
    [[nodiscard]] static std::optional<HostGrid> of(const ProcessSet& set) {
        const auto rows = places_by_host(set.hosts);
        const auto width = rows.front().size();
        if (rows.size() == 1 || width == 1 ||
            std::ranges::any_of(rows, [&](const auto& row) { return row.size() != width; })) {
            return std::nullopt;
        }
        HostGrid grid;
        for (std::size_t row = 0; row < rows.size(); ++row) {
            const auto own = std::ranges::find(rows[row], set.place);
            if (own != rows[row].end()) {
                grid.host_ = row;
                grid.column_ = static_cast<std::size_t>(own - rows[row].begin());
            }
        }
        grid.on_host_ = rows[grid.host_];
        for (const auto& row : rows) {
            grid.across_.push_back(row[grid.column_]);
        }
        return grid;
    }

    /// Places of the members of this host, ascending; this one is the `column()`th.
    [[nodiscard]] const std::vector<int>& on_host() const noexcept { return on_host_; }
    [[nodiscard]] std::size_t column() const noexcept { return column_; }

    /// Places of the members of this column, one of each host; this one is the `host()`th.
    [[nodiscard]] const std::vector<int>& across() const noexcept { return across_; }
    [[nodiscard]] std::size_t host() const noexcept { return host_; }

private:
    HostGrid() = default;

    std::vector<int> on_host_;
    std::vector<int> across_;
    std::size_t column_ = 0;
    std::size_t host_ = 0;
};

}  // namespace hvd::coll
