// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/ranks/oom_watch.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"
#include "launcher/agent/processes/group_memory.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 10;
constexpr std::string_view kMachineCounter = "/proc/vmstat";

/// Version 1 writes "none" as the largest multiple of a page.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

/// A limit is exactly what somebody wrote.
std::string describe(std::uint64_t limit) {
    return limit % kMebibyte == 0 ? std::to_string(limit / kMebibyte) + " MiB"
                                  : std::to_string(limit) + " bytes";
}

std::optional<std::uint64_t> read_count(const UniqueFd& file) {
    if (!file) {
        return std::nullopt;
    }
    std::array<char, kMaxText> text;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const auto size = ::pread(file.get(), text.data(), text.size(), 0);
    if (size <= 0) {
        return std::nullopt;
    }
    return parse_oom_count({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace

std::vector<std::string> oom_counter_files(std::string_view cgroups) {
    std::vector<std::string> files;
    // A cgroup may be without the controller (as a JobCgroup above us), and a container may see its
    // path from outside, but has it mounted as the root: so the parents are added too.
    const auto add = [&](const std::string& mount, std::string_view path, const char* file) {
        for (auto left = path == "/" ? "" : path; !left.empty();
             left = left.substr(0, left.rfind('/'))) {
            files.push_back(mount + std::string(left) + "/" + file);
        }
        files.push_back(mount + "/" + file);
    };
    for (const auto line : split(trim(cgroups), '\n')) {
        const auto parts = split(line, ':');  // number:controllers:path
        if (parts.size() < 3) {
            continue;
        }
        const auto path = line.substr(parts[0].size() + parts[1].size() + 2);
        const auto controllers = split(parts[1], ',');
        if (parts[0] == "0" && parts[1].empty()) {
            add("/sys/fs/cgroup", path, "memory.events");
        } else if (std::ranges::find(controllers, "memory") != controllers.end()) {
            add("/sys/fs/cgroup/memory", path, "memory.oom_control");
        }
    }
    files.emplace_back(kMachineCounter);  // of the whole machine
    return files;
}

std::optional<std::uint64_t> parse_oom_count(std::string_view text) {
    constexpr std::string_view kName = "oom_kill ";
    for (const auto line : split(text, '\n')) {
        if (line.starts_with(kName)) {
            return parse_number<std::uint64_t>(trim(line.substr(kName.size())));
        }
    }
    return std::nullopt;
}

std::vector<std::string> memory_limit_files(std::string_view counter_file) {
    const auto slash = counter_file.rfind('/');
    const auto file = counter_file.substr(slash + 1);
    const bool is_first_version = file == "memory.oom_control";
    if (!is_first_version && file != "memory.events") {
        return {};
    }
    const std::string_view mount = is_first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    std::vector<std::string> files;
    for (auto folder = counter_file.substr(0, slash); folder.starts_with(mount);
         folder = folder.substr(0, folder.rfind('/'))) {
        files.push_back(std::string(folder) +
                        (is_first_version ? "/memory.limit_in_bytes" : "/memory.max"));
    }
    return files;
}

std::string memory_peak_file(std::string_view limit_file) {
    const auto slash = limit_file.rfind('/');
    const bool is_first_version = limit_file.substr(slash + 1) == "memory.limit_in_bytes";
    return std::string(limit_file.substr(0, slash)) +
           (is_first_version ? "/memory.max_usage_in_bytes" : "/memory.peak");
}

std::optional<std::uint64_t> parse_memory_limit(std::string_view text) {
    const auto limit = parse_number<std::uint64_t>(trim(text));  // version 2 says "max" for none
    return limit && *limit < kNoLimit ? limit : std::nullopt;
}

void OomWatch::start(std::string root) {
    root_ = std::move(root);
    const auto cgroups = read_file(root_ + "/proc/self/cgroup", kMaxText);
    for (auto& name : oom_counter_files(cgroups ? *cgroups : "")) {
        if (start_counter(std::move(name))) {
            return;
        }
    }
}

void OomWatch::narrow_to(std::string counter_file) {
    if (name_ == kMachineCounter) {
        (void)start_counter(std::move(counter_file));
    }
}

bool OomWatch::start_counter(std::string name) {
    UniqueFd file(::open((root_ + name).c_str(), O_RDONLY | O_CLOEXEC));
    const auto count = read_count(file);
    if (count) {
        name_ = std::move(name);
        file_ = std::move(file);
        count_ = *count;
    }
    return count.has_value();
}

std::string OomWatch::take_kill(pid_t pid) {
    auto why = take_rise();
    const auto kernel = log_.find_kill(pid);
    if (kernel.empty()) {
        return why;
    }
    return why.empty() ? "the kernel's log: " + kernel : why + "; the kernel's log: " + kernel;
}

std::string OomWatch::take_rise() {
    const auto count = read_count(file_);
    if (!count || *count <= count_) {
        return {};
    }
    const auto rose = "oom_kill rose by " + std::to_string(*count - count_);
    ++count_;
    return name_ == kMachineCounter ? "the machine's " + rose
                                    : "its cgroup's " + rose + " " + describe_limit();
}

std::string OomWatch::describe_limit() const {
    const auto files = memory_limit_files(name_);
    const auto* at = &files.front();  // without a limit, the cgroup's own
    std::optional<std::uint64_t> lowest;
    for (const auto& name : files) {
        const auto limit = read_bytes(name);
        if (limit && (!lowest || *limit < *lowest)) {
            lowest = limit;
            at = &name;
        }
    }
    const auto peak = read_bytes(memory_peak_file(*at));
    return (lowest ? "(limit " + describe(*lowest) + ")" : "(no limit)") +
           (peak ? ", peak " + in_mebibytes(*peak) : "");
}

std::optional<std::uint64_t> OomWatch::read_bytes(const std::string& file) const {
    const auto text = read_file(root_ + file, kMaxText);
    return text ? parse_memory_limit(*text) : std::nullopt;
}

}  // namespace hvd::launch::agent
