// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/group_memory.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 10;
constexpr std::size_t kMostGroups = 3;
constexpr auto kMostTime = std::chrono::milliseconds(100);

/// 0 for one that has ended.
std::uint64_t resident_bytes(pid_t pid) {
    const auto text = read_file("/proc/" + std::to_string(pid) + "/statm", kMaxText);
    const auto fields = text ? split(*text, ' ') : std::vector<std::string_view>();
    const auto pages = fields.size() < 2 ? std::nullopt : parse_number<std::uint64_t>(fields[1]);
    return pages.value_or(0) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Of all its threads.
void add_children(pid_t pid, std::vector<pid_t>& to) {
    std::error_code has_ended;
    const std::filesystem::path threads("/proc/" + std::to_string(pid) + "/task");
    for (std::filesystem::directory_iterator thread(threads, has_ended), end; thread != end;
         thread.increment(has_ended)) {
        const auto text = read_file((thread->path() / "children").string(), kMaxText);
        for (const auto word : split(text ? std::string_view(*text) : "", ' ')) {
            if (const auto child = parse_number<pid_t>(word)) {
                to.push_back(*child);
            }
        }
    }
}

}  // namespace

std::vector<GroupMemory> measure_groups(const std::map<pid_t, int>& rank_of_group) {
    const auto give_up_at = std::chrono::steady_clock::now() + kMostTime;
    std::map<pid_t, GroupMemory> found;
    std::vector<pid_t> to_visit{::getpid()};
    while (!to_visit.empty()) {
        const pid_t pid = to_visit.back();
        to_visit.pop_back();
        add_children(pid, to_visit);
        if (std::chrono::steady_clock::now() > give_up_at) {
            return {};
        }
        const auto group = rank_of_group.find(::getpgid(pid));
        const auto bytes = group == rank_of_group.end() ? 0 : resident_bytes(pid);
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
