// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/processes/job_cgroup.hpp"
#include "launcher/agent/processes/process_table.hpp"
#include "launcher/agent/ranks/rank_source.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// All processes of the job on this host but guard and agent: the ranks, and the processes that
/// they have started.
class JobProcesses final {
public:
    explicit JobProcesses(pid_t guard);

    /// Before the ranks start. They live in our own cgroup where there is none of theirs.
    void make_cgroup(std::string path) { cgroup_ = JobCgroup::make(std::move(path)); }
    [[nodiscard]] std::optional<JobCgroup>& cgroup() noexcept { return cgroup_; }

    void set_job(std::string id) { marks_.job_id = std::move(id); }
    [[nodiscard]] const JobMarks& marks() const noexcept { return marks_; }

    /// A child has ended; `reap_ended` is due.
    void child_ended() noexcept { has_ended_child_ = true; }
    [[nodiscard]] bool has_ended_child() const noexcept { return has_ended_child_; }
    void reap_ended(RankSource& ranks) {
        if (has_ended_child_) {
            reap(ranks);
        }
    }

    /// Takes in the ends of children.
    void reap(RankSource& ranks);

    /// Once every rank has ended: whether anything else of the job lives.
    [[nodiscard]] bool is_any_left(RankSource& ranks);

    /// The launcher of external ranks counts as a process of the job only if an end is `wanted`.
    void want_end() noexcept { is_end_wanted_ = true; }

    /// Sends TERM to each that is not in the process group of a rank which was asked before.
    void term_leftovers(const RankSource& ranks) const;
    void kill(RankSource& ranks);
    [[nodiscard]] std::vector<Process> find(const RankSource& ranks) const;

private:
    JobMarks marks_;
    std::optional<JobCgroup> cgroup_;
    bool has_children_ = true;      // as far as is known
    bool has_ended_child_ = false;  // since the last look
    bool was_killed_ = false;
    bool is_end_wanted_ = false;
};

}  // namespace hvd::launch::agent
