// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"

#include <optional>
#include <string>

#include <sys/types.h>

namespace hvd::launch::agent {

/// A cgroup (version 2) below our own for the ranks and all that comes from them, where we may make
/// one: mostly as root, or in a session that systemd delegated. Whoever is in it dies by one word
/// to the kernel, also who hides his parents and environment or forks faster than we find him. It
/// has no limits of its own. Guard and agent stay outside. Source:
/// Documentation/admin-guide/cgroup-v2.rst of Linux. Thread: any one.
class JobCgroup final {
public:
    /// For the job of this guard. Nothing where it cannot be made.
    [[nodiscard]] static std::optional<JobCgroup> make(pid_t guard);

    /// The one that the agent of this guard has left, for who is in the same cgroup as it was.
    [[nodiscard]] static std::optional<JobCgroup> find(pid_t guard);

    /// Removes it, once nobody is in it.
    ~JobCgroup();
    JobCgroup(JobCgroup&& other) noexcept;
    JobCgroup& operator=(JobCgroup&& other) noexcept;
    JobCgroup(const JobCgroup&) = delete;
    JobCgroup& operator=(const JobCgroup&) = delete;

    /// For CLONE_INTO_CGROUP.
    [[nodiscard]] int folder() const noexcept { return folder_.get(); }

    /// KILL for everybody in it (Linux 5.14). False where the kernel cannot.
    bool kill() const;

    /// Removes those beside it that nobody is in: who made them was killed. One that was made in
    /// this moment is missed by nobody: its ranks start without it.
    void remove_abandoned() const;

private:
    JobCgroup(std::string path, UniqueFd folder);

    std::string path_;
    UniqueFd folder_;
};

}  // namespace hvd::launch::agent
