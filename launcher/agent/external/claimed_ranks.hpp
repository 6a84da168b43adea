// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/external/rank_parents.hpp"
#include "launcher/agent/external/shim_listener.hpp"
#include "launcher/agent/ranks/rank_source.hpp"
#include "launcher/model/launch_plan.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The ranks of this host that mpirun starts: the shim of each claims it, gets the plan of the
/// rank and pipes of the agent for its output, and is watched from then on. They
/// are no children of the agent: how one of them ended is known where the kernel keeps it
/// (PIDFD_GET_INFO, Linux 6.15), else only to mpirun.
class ClaimedRanks final {
public:
    using TimePoint = RankSource::TimePoint;

    ClaimedRanks(JobPlan job, HostPlan plan, RankContext context);

    /// Errors: invalid_argument or unavailable, when the name cannot be had.
    [[nodiscard]] Status listen(const std::string& name) { return shims_.listen(name); }

    [[nodiscard]] std::optional<pid_t> pid_of(int rank) const noexcept;
    [[nodiscard]] bool has_any_come() const noexcept;
    [[nodiscard]] bool have_all_come() const noexcept;
    [[nodiscard]] bool is_any_running() const noexcept;
    [[nodiscard]] const RankParents& parents() const noexcept { return parents_; }

    /// As those of RankSource.
    void signal(int number);
    void mark_killed_by_launcher() noexcept;
    [[nodiscard]] bool was_asked(pid_t group) const noexcept;

    /// Whether all ranks of the job were planned here, have come and have ended, reaped or not.
    [[nodiscard]] bool is_whole_job_over() const noexcept;

    /// Whether a rank has ended whose parent is still to take its status, which the kernel may tell
    /// the agent then; for a while, since that parent may hang. Look again at `deadline`.
    [[nodiscard]] bool awaits_status(TimePoint now);
    [[nodiscard]] std::optional<TimePoint> deadline() const noexcept { return look_again_at_; }

    /// A child of the agent has ended, such as a rank that mpirun left behind unreaped.
    void child_ended(const EndedChild& child);

    /// The job ends: a rank that comes now is refused.
    void refuse_new() noexcept { takes_more_ = false; }
    [[nodiscard]] bool takes_more() const noexcept { return takes_more_; }

    /// mpirun has ended, or everything was killed: a rank whose end nobody has told is gone, too.
    void end_all();

private:
    struct Rank {
        const ProcessSpec* spec = nullptr;
        std::optional<pid_t> pid;  // since its claim was taken
        std::optional<ShimListener::ConnectionId> shim;
        UniqueFd pidfd;
        std::int64_t ended_ns = 0;  // 0: it runs
        pid_t killed_with = 0;      // the process at whose death it is killed, if any
        bool is_started = false;    // told so
        bool is_over = false;       // its end was told
        bool was_asked = false;     // to end, with its group
        bool is_killed_by_launcher = false;
    };

    [[nodiscard]] ShimListener::Answer answer(ShimListener::ConnectionId id,
                                              pid_t shim,
                                              const ShimClaim& claim);
    [[nodiscard]] std::string reason_to_refuse(const ShimClaim& claim) const;
    void parent_ended(pid_t parent);
    void fail(Rank& rank, const ShimFailure& failure);
    void tell_started(Rank& rank);
    void watch(Rank& rank);
    void look(Rank& rank, std::uint32_t epoll_events);
    void tell_end(Rank& rank, std::optional<int> wait_status);
    [[nodiscard]] Rank& rank_of(ShimListener::ConnectionId id);

    JobPlan job_;
    HostPlan plan_;
    RankContext context_;
    ShimListener shims_;
    RankParents parents_;
    std::vector<Rank> ranks_;
    bool takes_more_ = true;
    bool is_whole_job_ = false;
    std::optional<TimePoint> look_again_at_;
};

}  // namespace hvd::launch::agent
