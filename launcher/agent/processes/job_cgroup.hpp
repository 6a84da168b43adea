// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/deadline.hpp"
#include "collectives/base/unique_fd.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace hvd::launch::agent {

/// A cgroup (version 2) below our own for the ranks and all that comes from them, where we may make
/// one: mostly as root, or in a session that systemd delegated. One write to cgroup.kill ends all
/// processes in it, also those that hide their parents and environment or fork faster than we find
/// them. It sets no limits. Guard and agent stay outside. Source:
/// Documentation/admin-guide/cgroup-v2.rst of Linux. Thread: any one.
class JobCgroup final {
public:
    /// A name for the job of this guard that no other has, also in another PID namespace:
    /// "horovodrun-4711-1234567890", its process and a time.
    [[nodiscard]] static std::string new_name();

    /// Where the one of this name is: below our own cgroup. Empty where there can be none.
    [[nodiscard]] static std::string path_of(std::string_view name);

    /// Nothing where it cannot be made.
    [[nodiscard]] static std::optional<JobCgroup> make(std::string path);

    /// The one that an agent has left.
    [[nodiscard]] static std::optional<JobCgroup> find(std::string path);

    /// Removes it if no process is in it.
    ~JobCgroup();
    JobCgroup(JobCgroup&& other) noexcept;
    JobCgroup& operator=(JobCgroup&& other) noexcept;
    JobCgroup(const JobCgroup&) = delete;
    JobCgroup& operator=(const JobCgroup&) = delete;

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// For CLONE_INTO_CGROUP.
    [[nodiscard]] int folder() const noexcept { return folder_.get(); }

    /// KILL for everybody in it (Linux 5.14). False where the kernel cannot.
    bool kill() const;

    /// Removes it once no process is in it. May block until the deadline.
    void remove(Deadline deadline);

    /// Removes those beside it that nobody is in and whose guard is gone. One of another PID
    /// namespace may look so before its first rank starts: that job does without it.
    void remove_abandoned() const;

private:
    JobCgroup(std::string path, UniqueFd folder);

    std::string path_;
    UniqueFd folder_;
};

}  // namespace hvd::launch::agent
