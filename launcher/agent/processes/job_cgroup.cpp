// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/processes/job_cgroup.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 10;

/// Of the hierarchy of version 2: alone, or beside those of version 1. Empty: none.
std::string find_mount() {
    for (const auto* place : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        struct statfs about {};
        if (::statfs(place, &about) == 0 && about.f_type == CGROUP2_SUPER_MAGIC) {
            return place;
        }
    }
    return {};
}

/// "/user.slice/...", ours in that hierarchy. Empty: unknown.
std::string own_path() {
    const auto text = read_file("/proc/self/cgroup", kMaxText);
    for (const auto line : split(text ? std::string_view(*text) : "", '\n')) {
        if (line.starts_with("0::/")) {
            return std::string(trim(line.substr(3)));
        }
    }
    return {};
}

constexpr std::string_view kPrefix = "horovodrun-";

/// Whether the guard lives that gave it this name.
bool is_in_use(std::string_view name) {
    name.remove_prefix(kPrefix.size());
    const auto guard = parse_number<pid_t>(name.substr(0, name.find('-')));
    return guard && *guard > 0 && (::kill(*guard, 0) == 0 || errno == EPERM);
}

/// Those that nobody is in.
void remove_empty(const std::filesystem::path& folder) {
    std::error_code over;
    for (std::filesystem::directory_iterator entry(folder, over), end; !over && entry != end;
         entry.increment(over)) {
        const auto name = entry->path().filename().string();
        if (name.starts_with(kPrefix) && !is_in_use(name)) {
            (void)::rmdir(entry->path().c_str());
        }
    }
}

UniqueFd open_folder(const std::string& path) {
    return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool is_populated(int events) {
    std::array<char, 256> text{};
    const auto size = ::pread(events, text.data(), text.size(), 0);
    return size > 0 &&
           std::string_view(text.data(), static_cast<std::size_t>(size)).find("populated 1") !=
               std::string_view::npos;
}

/// A process that was reaped a moment ago may still count. The kernel tells when none does.
void await_empty(int folder, Deadline deadline) {
    const UniqueFd events(::openat(folder, "cgroup.events", O_RDONLY | O_CLOEXEC));
    while (events && is_populated(events.get()) && !deadline.has_passed()) {
        pollfd change{.fd = events.get(), .events = POLLPRI, .revents = 0};
        (void)::poll(&change, 1, deadline.poll_timeout_ms());
    }
}

}  // namespace

std::string JobCgroup::new_name() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    return std::string(kPrefix) + std::to_string(::getpid()) + "-" + std::to_string(now);
}

std::string JobCgroup::path_of(std::string_view name) {
    const auto mount = find_mount();
    const auto own = mount.empty() ? "" : own_path();
    return own.empty() ? "" : mount + (own == "/" ? "" : own) + "/" + std::string(name);
}

std::optional<JobCgroup> JobCgroup::make(std::string path) {
    if (path.empty() || ::mkdir(path.c_str(), 0755) != 0) {
        return std::nullopt;
    }
    auto folder = open_folder(path);
    JobCgroup made(std::move(path), std::move(folder));  // removes it again where it is of no use
    return made.folder_ ? std::optional(std::move(made)) : std::nullopt;
}

std::optional<JobCgroup> JobCgroup::find(std::string path) {
    auto folder = path.empty() ? UniqueFd() : open_folder(path);
    return folder ? std::optional(JobCgroup(std::move(path), std::move(folder))) : std::nullopt;
}

JobCgroup::JobCgroup(std::string path, UniqueFd folder)
    : path_(std::move(path)), folder_(std::move(folder)) {}

JobCgroup::JobCgroup(JobCgroup&& other) noexcept
    : path_(std::exchange(other.path_, {})), folder_(std::move(other.folder_)) {}

JobCgroup& JobCgroup::operator=(JobCgroup&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(folder_, other.folder_);
    return *this;
}

JobCgroup::~JobCgroup() {
    if (!path_.empty()) {
        (void)::rmdir(path_.c_str());
    }
}

void JobCgroup::remove(Deadline deadline) {
    if (::rmdir(path_.c_str()) != 0 && errno == EBUSY) {
        remove_empty(path_);  // those that a horovodrun among the ranks may have left in it
        await_empty(folder_.get(), deadline);
        (void)::rmdir(path_.c_str());
    }
    path_.clear();
}

bool JobCgroup::kill() const {
    constexpr std::string_view kWord = "1";
    const UniqueFd file(::openat(folder_.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
    return file &&
           ::write(file.get(), kWord.data(), kWord.size()) == static_cast<ssize_t>(kWord.size());
}

void JobCgroup::remove_abandoned() const {
    remove_empty(std::filesystem::path(path_).parent_path());
}

}  // namespace hvd::launch::agent
