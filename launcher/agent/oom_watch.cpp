// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/oom_watch.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 10;

}  // namespace

std::vector<std::string> oom_counter_files(std::string_view cgroups) {
    std::vector<std::string> files;
    // A container may see the path of its cgroup from outside, but has it mounted as the root.
    const auto add = [&](const std::string& mount, std::string_view path, const char* file) {
        files.push_back(mount + std::string(path == "/" ? "" : path) + "/" + file);
        if (path != "/") {
            files.push_back(mount + "/" + file);
        }
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
    files.emplace_back("/proc/vmstat");  // of the whole machine
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

void OomWatch::start() {
    const auto cgroups = read_file("/proc/self/cgroup", kMaxText);
    for (const auto& name : oom_counter_files(cgroups ? *cgroups : "")) {
        file_.reset(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
        if (const auto count = read_count()) {
            count_ = *count;
            return;
        }
    }
    file_.reset();
}

bool OomWatch::take_kill() {
    const auto count = read_count();
    if (!count || *count <= count_) {
        return false;
    }
    ++count_;
    return true;
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
