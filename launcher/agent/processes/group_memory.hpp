// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The memory of all processes in the process group of a rank: the rank itself, its loaders, and
/// other descendants that have not left the group.
struct GroupMemory {
    int rank = 0;
    std::uint64_t resident_bytes = 0;  // what they share counts for each
    std::size_t processes = 0;

    friend bool operator==(const GroupMemory&, const GroupMemory&) = default;
};

/// Of each group among our descendants, by the rank whose number it has: those with living
/// processes, largest first. Reads nothing of others, since every read takes long where memory has
/// run out; and nothing is found where it takes more than 0.1 s.
[[nodiscard]] std::vector<GroupMemory> measure_groups(const std::map<pid_t, int>& rank_of_group);

/// "rank 3 30720 MiB (8 processes), rank 0 12 MiB (1 process)", of the three largest.
[[nodiscard]] std::string describe_memory(const std::vector<GroupMemory>& groups);

/// "512 MiB", "511.9 MiB".
[[nodiscard]] std::string in_mebibytes(std::uint64_t bytes);

}  // namespace hvd::launch::agent
