// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/limits.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::int32_t kUsage = 2;
constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

constexpr std::uint64_t kThreadsPerRank = 16;     // frameworks and data loaders
constexpr std::uint64_t kManyProcesses = 65'536;  // nobody runs into such a limit
constexpr std::uint64_t kLeastStack = 1 * kMiB;   // deep recursion in Python needs more
constexpr std::uint64_t kFilesPerRank = 128;      // interpreter, data sets, a loader's pipes
constexpr std::uint64_t kUsualOpenFiles = 65'536;
constexpr std::uint64_t kBigCore = 1'024 * kMiB;
constexpr std::uint64_t kLeastLocked = 1'024 * kMiB;  // buffers that network cards read

enum class Which { soft, hard };

std::uint64_t limit_of(__rlimit_resource resource, Which which) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) {
        return Limits::kNone;
    }
    const auto value = which == Which::hard ? limit.rlim_max : limit.rlim_cur;
    return value == RLIM_INFINITY ? Limits::kNone : value;
}

/// The field "Threads:" of /proc/PID/status.
std::uint64_t threads_of(const std::filesystem::path& process) {
    constexpr std::string_view kField = "Threads:";
    const auto text = read_file(process / "status", 4 * kKiB);
    const auto at = text ? text->find(kField) : std::string::npos;
    if (at == std::string::npos) {
        return 0;
    }
    const auto rest = std::string_view(*text).substr(at + kField.size());
    return parse_number<std::uint64_t>(trim(rest.substr(0, rest.find('\n')))).value_or(0);
}

/// Those of the user in this PID namespace; the kernel may count more.
std::uint64_t count_processes() {
    std::uint64_t count = 0;
    std::error_code over;
    for (std::filesystem::directory_iterator entry("/proc", over), end; !over && entry != end;
         entry.increment(over)) {
        const auto name = entry->path().filename().string();
        struct stat about {};
        if (parse_number<int>(name) && ::stat(entry->path().c_str(), &about) == 0 &&
            about.st_uid == ::getuid()) {
            count += threads_of(entry->path());
        }
    }
    return count;
}

std::string in_words(std::uint64_t bytes) {
    return bytes >= kMiB ? std::to_string(bytes / kMiB) + " MiB"
                         : std::to_string(bytes / kKiB) + " KiB";
}

void judge_processes(const Limits& limits, std::size_t ranks, LimitFindings& found) {
    if (limits.processes == Limits::kNone || ranks == 0) {
        return;
    }
    const auto left = limits.processes - std::min(limits.processes, limits.used_processes);
    const auto text = "of the " + std::to_string(limits.processes) +
                      " processes and threads that the user may have " + std::to_string(left) +
                      " are left";
    const std::string remedy =
        "; raise `ulimit -u` there (nproc in /etc/security/limits.conf), or start fewer ranks";
    if (left < ranks) {
        found.problems.push_back(
            {.exit_code = kUsage,
             .text = text + ", fewer than its " + std::to_string(ranks) + " ranks" + remedy});
    } else if (left < ranks * kThreadsPerRank) {
        found.warnings.push_back(text + "; " + std::to_string(ranks) +
                                 " ranks with their threads may need " +
                                 std::to_string(ranks * kThreadsPerRank) + remedy);
    }
}

void judge_open_files(const Limits& limits, const RankNeeds& needs, LimitFindings& found) {
    // The mesh has two links with each rank where there are several hosts, and the ranks of one
    // host have two descriptors of each other.
    const std::uint64_t over_net = needs.world > needs.ranks ? 2 * (needs.world - 1) : 0;
    const auto others = needs.ranks == 0 ? 0 : over_net + 2 * (needs.ranks - 1);
    const auto of_rank = needs.ranks == 0 ? 0 : others + kFilesPerRank;
    const auto need = std::max<std::uint64_t>(of_rank, needs.descriptors);
    const auto for_others =
        others == 0 ? "" : ", of which " + std::to_string(others) + " for each other";
    if (limits.open_files < need) {
        auto text = "the hard limit of open files is " + std::to_string(limits.open_files) +
                    ", and its ranks may need " + std::to_string(need) + for_others +
                    "; raise it to that (`ulimit -Hn " + std::to_string(need) +
                    "` there, nofile in /etc/security/limits.conf), or start fewer ranks";
        if (limits.open_files < needs.descriptors) {
            found.problems.push_back({.exit_code = kUsage, .text = std::move(text)});
        } else {
            found.warnings.push_back(std::move(text));
        }
    } else if (limits.soft_open_files < of_rank) {
        const auto enough = std::max(of_rank, std::min(limits.open_files, kUsualOpenFiles));
        found.warnings.push_back("ranks may have only " + std::to_string(limits.soft_open_files) +
                                 " open files and may need " + std::to_string(of_rank) +
                                 for_others + "; set `ulimit -n " + std::to_string(enough) +
                                 "` there (nofile in /etc/security/limits.conf)");
    }
}

void judge_cores(const Limits& limits, LimitFindings& found) {
    if (limits.has_core_files && limits.core_bytes > kBigCore) {
        found.warnings.emplace_back(
            "a rank that crashes writes all its memory to a file, which takes time and room; set "
            "`ulimit -c 0` there if nobody will read it");
    }
}

bool has_core_files() {
    const auto pattern = read_file("/proc/sys/kernel/core_pattern", 4 * kKiB);
    return pattern && !pattern->starts_with('|') && !trim(*pattern).empty();
}

}  // namespace

Limits read_limits() {
    const auto core_bytes = limit_of(RLIMIT_CORE, Which::soft);
    Limits limits{.open_files = limit_of(RLIMIT_NOFILE, Which::hard),
                  .soft_open_files = limit_of(RLIMIT_NOFILE, Which::soft),
                  .locked_bytes = limit_of(RLIMIT_MEMLOCK, Which::soft),
                  .stack_bytes = limit_of(RLIMIT_STACK, Which::soft),
                  .core_bytes = core_bytes,
                  .has_core_files = core_bytes > 0 && has_core_files(),
                  .has_rdma = ::access("/dev/infiniband", F_OK) == 0};
    const auto processes = limit_of(RLIMIT_NPROC, Which::soft);
    if (::getuid() != 0 && processes < kManyProcesses) {
        limits.processes = processes;
        limits.used_processes = count_processes();
    }
    return limits;
}

LimitFindings judge(const Limits& limits, const RankNeeds& needs) {
    LimitFindings found;
    judge_open_files(limits, needs, found);
    judge_processes(limits, needs.ranks, found);
    if (needs.is_examination) {
        judge_cores(limits, found);
    }
    if (limits.has_rdma && limits.locked_bytes < kLeastLocked) {
        found.warnings.push_back(
            "only " + in_words(limits.locked_bytes) +
            " of memory may be locked, and its InfiniBand or RoCE needs more: NCCL and MPI will "
            "fail or be slow; set `ulimit -l unlimited` there (memlock in "
            "/etc/security/limits.conf, LimitMEMLOCK of sshd's unit)");
    }
    if (limits.stack_bytes < kLeastStack) {
        found.warnings.push_back("stacks have only " + in_words(limits.stack_bytes) +
                                 ", which programs and their threads overrun; set `ulimit -s "
                                 "8192` there (stack in /etc/security/limits.conf)");
    }
    return found;
}

}  // namespace hvd::launch::agent
