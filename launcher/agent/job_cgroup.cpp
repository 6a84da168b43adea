// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/job_cgroup.hpp"

#include "collectives/base/file.hpp"
#include "collectives/base/text.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
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

/// Removes those in `folder` that nobody is in: who made them was killed. One that was made in this
/// moment is missed by nobody: its maker forks without it.
void remove_empty(const std::filesystem::path& folder) {
    std::error_code over;
    for (std::filesystem::directory_iterator entry(folder, over), end; !over && entry != end;
         entry.increment(over)) {
        if (entry->path().filename().string().starts_with(kPrefix)) {
            (void)::rmdir(entry->path().c_str());
        }
    }
}

/// With those that a horovodrun among our ranks may have left in it. Somebody who was reaped a
/// moment ago may still count.
void remove_folder(const std::string& path) {
    constexpr int kAttempts = 50;
    for (int attempt = 0; attempt < kAttempts && ::rmdir(path.c_str()) != 0 && errno == EBUSY;
         ++attempt) {
        remove_empty(path);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

bool write_word(int folder, const char* file, std::string_view word) {
    const UniqueFd fd(::openat(folder, file, O_WRONLY | O_CLOEXEC));
    return fd && ::write(fd.get(), word.data(), word.size()) == static_cast<ssize_t>(word.size());
}

}  // namespace

std::optional<JobCgroup> JobCgroup::make() {
    const auto mount = find_mount();
    const auto own = mount.empty() ? "" : own_path();
    if (own.empty()) {
        return std::nullopt;
    }
    const auto path =
        mount + (own == "/" ? "" : own) + "/" + std::string(kPrefix) + std::to_string(::getpid());
    if (::mkdir(path.c_str(), 0755) != 0) {
        // One of a process that was killed with this number? An empty one can be removed.
        if (errno != EEXIST || ::rmdir(path.c_str()) != 0 || ::mkdir(path.c_str(), 0755) != 0) {
            return std::nullopt;
        }
    }
    UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    JobCgroup made(path, std::move(folder));  // removes it again where it is of no use
    return made.folder_ ? std::optional(std::move(made)) : std::nullopt;
}

JobCgroup::JobCgroup(std::string path, UniqueFd folder)
    : path_(std::move(path)), folder_(std::move(folder)), maker_(::getpid()) {}

JobCgroup::JobCgroup(JobCgroup&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      folder_(std::move(other.folder_)),
      maker_(other.maker_) {}

JobCgroup::~JobCgroup() {
    if (!path_.empty() && maker_ == ::getpid()) {
        remove_folder(path_);
        remove_empty(std::filesystem::path(path_).parent_path());
    }
}

pid_t JobCgroup::fork_into() const {
    clone_args how{};
    how.flags = CLONE_INTO_CGROUP;
    how.exit_signal = SIGCHLD;
    how.cgroup = static_cast<std::uint64_t>(folder_.get());
    // libc has no name for it. Without CLONE_VM the child has a copy of all, as after fork.
    const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
    return child >= 0 ? child : ::fork();
}

bool JobCgroup::kill() const {
    return write_word(folder_.get(), "cgroup.kill", "1");
}

bool JobCgroup::leave() const {
    return write_word(folder_.get(), "../cgroup.procs", "0");
}

void JobCgroup::remove() const {
    remove_folder(path_);
}

}  // namespace hvd::launch::agent
