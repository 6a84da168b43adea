// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/group_memory.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/agent/process_table.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxText = 4096;
constexpr std::size_t kMostGroups = 3;

/// 0 for one that has ended.
std::uint64_t resident_bytes(pid_t pid) {
    const auto text = read_file("/proc/" + std::to_string(pid) + "/statm", kMaxText);
    const auto fields = text ? split(*text, ' ') : std::vector<std::string_view>();
    const auto pages = fields.size() < 2 ? std::nullopt : parse_number<std::uint64_t>(fields[1]);
    return pages.value_or(0) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::vector<GroupMemory> measure_groups(const std::map<pid_t, int>& rank_of_group) {
    std::map<pid_t, GroupMemory> found;
    for (const auto& process : list_processes()) {
        const auto group = rank_of_group.find(::getpgid(process.pid));
        const auto bytes = group == rank_of_group.end() ? 0 : resident_bytes(process.pid);
        if (bytes > 0) {
            auto& entry = found[group->first];
            entry.rank = group->second;
            entry.resident_bytes += bytes;
            ++entry.processes;
        }
    }
    std::vector<GroupMemory> groups;
    groups.reserve(found.size());
    for (const auto& [group, memory] : found) {
        groups.push_back(memory);
    }
    std::ranges::stable_sort(groups, std::ranges::greater(), &GroupMemory::resident_bytes);
    return groups;
}

std::string describe_memory(const std::vector<GroupMemory>& groups) {
    std::vector<std::string> parts;
    for (const auto& group : groups) {
        if (parts.size() == kMostGroups) {
            break;
        }
        parts.push_back(
            "rank " + std::to_string(group.rank) + " " + in_mebibytes(group.resident_bytes) + " (" +
            std::to_string(group.processes) + (group.processes == 1 ? " process)" : " processes)"));
    }
    return join(parts, ", ");
}

std::string in_mebibytes(std::uint64_t bytes) {
    constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
    constexpr std::uint64_t kTenths = 10;
    const auto tenth = bytes % kMebibyte * kTenths / kMebibyte;
    return std::to_string(bytes / kMebibyte) + (tenth == 0 ? "" : "." + std::to_string(tenth)) +
           " MiB";
}

}  // namespace hvd::launch::agent
