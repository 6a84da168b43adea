// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/oom_watch.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

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

}  // namespace

std::vector<std::string> oom_counter_files(std::string_view cgroups) {
    std::vector<std::string> files;
    // A cgroup may be without the controller (as JobCgroup), and a container may see the path of
    // its own from outside, but has it mounted as the root: so those above come too.
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

std::optional<std::uint64_t> parse_memory_limit(std::string_view text) {
    const auto limit = parse_number<std::uint64_t>(trim(text));  // version 2 says "max" for none
    return limit && *limit < kNoLimit ? limit : std::nullopt;
}

void OomWatch::start(std::string root) {
    root_ = std::move(root);
    const auto cgroups = read_file(root_ + "/proc/self/cgroup", kMaxText);
    for (auto& name : oom_counter_files(cgroups ? *cgroups : "")) {
        file_.reset(::open((root_ + name).c_str(), O_RDONLY | O_CLOEXEC));
        if (const auto count = read_count()) {
            name_ = std::move(name);
            count_ = *count;
            return;
        }
    }
    file_.reset();
}

std::string OomWatch::take_kill() {
    const auto count = read_count();
    if (!count || *count <= count_) {
        return {};
    }
    const auto rose = "oom_kill rose by " + std::to_string(*count - count_);
    ++count_;
    return name_ == kMachineCounter ? "the machine's " + rose
                                    : "its cgroup's " + rose + " (" + describe_limit() + ")";
}

std::string OomWatch::describe_limit() const {
    std::optional<std::uint64_t> lowest;
    for (const auto& name : memory_limit_files(name_)) {
        const auto text = read_file(root_ + name, kMaxText);
        const auto limit = text ? parse_memory_limit(*text) : std::nullopt;
        if (limit && (!lowest || *limit < *lowest)) {
            lowest = limit;
        }
    }
    constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
    if (!lowest) {
        return "no limit";
    }
    return *lowest % kMebibyte == 0 ? "limit " + std::to_string(*lowest / kMebibyte) + " MiB"
                                    : "limit " + std::to_string(*lowest) + " bytes";
}

std::optional<std::uint64_t> OomWatch::read_count() const {
    if (!file_) {
        return std::nullopt;
    }
    std::array<char, kMaxText> text;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const auto size = ::pread(file_.get(), text.data(), text.size(), 0);
    if (size <= 0) {
        return std::nullopt;
    }
    return parse_oom_count({text.data(), static_cast<std::size_t>(size)});
}

}  // namespace hvd::launch::agent
