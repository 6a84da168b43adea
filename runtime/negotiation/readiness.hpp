// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/negotiation/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace hvd::rt {

/// Who has announced what. A machine without I/O.
class ReadinessTable {
public:
    explicit ReadinessTable(int ranks);

    /// Records one announcement. Returns what all ranks said, in rank order, when it was the last
    /// one missing; the unit then starts a new round. A rank that announces a unit twice in one
    /// round replaces what it said.
    [[nodiscard]] std::optional<std::vector<Announcement>> announce(int rank,
                                                                    Announcement announcement);

    /// Units still waiting, by name, with the ranks they wait for.
    struct Waiting {
        std::string unit;
        std::vector<int> missing;
    };
    [[nodiscard]] std::vector<Waiting> waiting() const;

private:
    struct Row {
        std::vector<std::optional<Announcement>> said;
        std::size_t count = 0;
    };

    std::size_t ranks_;
    std::unordered_map<std::string, Row> rows_;
};

/// Why these announcements of one unit, in rank order, cannot go together: the tensor, the values
/// and the ranks on each side. Nothing where they agree.
[[nodiscard]] std::optional<Error> find_disagreement(const std::vector<Announcement>& said);

}  // namespace hvd::rt
