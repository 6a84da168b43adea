// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"

#include <optional>
#include <string>

#include <sys/types.h>

namespace hvd::launch::agent {

/// A cgroup (version 2) below our own for all that the agent starts, where we may make one: mostly
/// as root, or in a session that systemd delegated. Whoever is in it dies by one word to the
/// kernel, also who hides his parents and environment or forks faster than we find him. It has no
/// limits of its own. The guard makes it and stays outside. Source:
/// Documentation/admin-guide/cgroup-v2.rst of Linux. Thread: any one.
class JobCgroup final {
public:
    /// Nothing where it cannot be made.
    [[nodiscard]] static std::optional<JobCgroup> make();

    /// Removes it, once nobody is in it.
    ~JobCgroup();
    JobCgroup(JobCgroup&& other) noexcept;
    JobCgroup& operator=(JobCgroup&&) = delete;
    JobCgroup(const JobCgroup&) = delete;
    JobCgroup& operator=(const JobCgroup&) = delete;

    /// As ::fork in a process of one thread, with the child in this cgroup.
    [[nodiscard]] pid_t fork_into() const;

    /// KILL for everybody in it (Linux 5.14). False where the kernel cannot.
    bool kill() const;

    /// For somebody who is in it: to the cgroup above. Takes some 20 ms. False where he may not.
    [[nodiscard]] bool leave() const;

    /// For one who is not its maker, which cannot do it any more. In vain while somebody is in it.
    void remove() const;

private:
    JobCgroup(std::string path, UniqueFd folder);

    std::string path_;
    UniqueFd folder_;
    pid_t maker_;
};

}  // namespace hvd::launch::agent
