// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/external/claimed_ranks.hpp"
#include "launcher/agent/external/idle_watch.hpp"
#include "launcher/agent/processes/process_table.hpp"
#include "launcher/agent/processes/spawner.hpp"
#include "launcher/agent/ranks/rank_source.hpp"
#include "launcher/agent/ranks/spawned_ranks.hpp"
#include "launcher/model/launch_plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// The ranks of this host where mpirun or jsrun starts them: on one host the agent spawns that
/// launcher, on all its ranks claim their places. Where the launcher is, all is over with it.
class ExternalRanks final : public RankSource {
public:
    /// `job_processes` names the job, to see what is left when the launcher hangs in its end.
    ExternalRanks(JobPlan job,
                  HostPlan plan,
                  const Inheritance& given,
                  int cgroup,
                  JobMarks job_processes,
                  RankContext context);

    void advance(TimePoint now) override;
    [[nodiscard]] bool has_to_start() const override;
    [[nodiscard]] std::optional<TimePoint> deadline() const override;
    void cancel_starts() override;
    void refuse_new() override { claimed_.refuse_new(); }
    [[nodiscard]] bool is_over(TimePoint now) override;
    void signal(int number) override;
    [[nodiscard]] bool ends_by_itself() const override { return is_launcher_alone_; }
    void mark_killed_by_launcher() override;
    [[nodiscard]] bool was_asked(pid_t group) const override;
    [[nodiscard]] std::optional<pid_t> pid_of(int rank) const override {
        return claimed_.pid_of(rank);
    }
    void child_ended(const EndedChild& child) override;
    [[nodiscard]] bool was_any_killed() const override;
    [[nodiscard]] bool has_non_descendants() const override;
    void exclude_launcher(std::vector<Process>& processes) const override;
    void finish() override { claimed_.end_all(); }

private:
    void end_hanging_launcher(TimePoint now);

    JobMarks job_processes_;
    RankContext context_;
    ClaimedRanks claimed_;
    std::optional<SpawnedRanks> launcher_;  // where it is this host's to start
    bool is_launcher_alone_;                // no rank comes to this host
    std::string launcher_name_;             // as it was written
    IdleWatch launcher_end_;
};

}  // namespace hvd::launch::agent
