// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/base/unique_fd.hpp"
#include "launcher/agent/control_stream.hpp"
#include "launcher/agent/event_loop.hpp"
#include "launcher/agent/oom_watch.hpp"
#include "launcher/agent/output_pump.hpp"
#include "launcher/agent/process_table.hpp"
#include "launcher/agent/rank_socket.hpp"
#include "launcher/agent/shim_protocol.hpp"
#include "launcher/plan/process_spec.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvd::launch::agent {

/// The ranks of this host that mpirun starts: each comes by its shim, is told how it was planned,
/// is given pipes of ours for what it writes, and is watched from then on. They are no children of
/// ours: how one of them ended is known where the kernel keeps it for us (PIDFD_GET_INFO,
/// Linux 6.15), else only to mpirun.
class BroughtRanks final {
public:
    struct Surroundings {
        EventLoop& loop;
        ControlStream& control;
        OutputPump& output;
        OomWatch& oom;
        RankSocket& socket;
    };

    BroughtRanks(JobPlan job, HostPlan plan, Surroundings surroundings);

    /// Errors: invalid_argument or unavailable, when the name cannot be had.
    [[nodiscard]] Status listen(const std::string& name);

    [[nodiscard]] std::optional<pid_t> pid_of(int rank) const noexcept;
    [[nodiscard]] bool has_any_come() const noexcept;
    [[nodiscard]] bool have_all_come() const noexcept;
    [[nodiscard]] bool is_any_running() const noexcept;

    /// Whether one has come that is no descendant of ours, as from the daemon of another host.
    [[nodiscard]] bool has_stranger() const noexcept { return has_stranger_; }

    /// Takes out who started ranks that are no descendants of ours: mpirun's daemon, which srun may
    /// have given the variables of a rank, and which ends with mpirun.
    void leave_out_starters(std::vector<Process>& processes) const;

    /// To every rank that runs; see Ranks::signal.
    void signal(int number);
    void mark_induced() noexcept;
    /// See Ranks::was_asked.
    [[nodiscard]] bool was_asked(pid_t group) const noexcept;

    /// Whether all ranks of the job were planned here, have come and have ended, reaped or not.
    [[nodiscard]] bool is_whole_job_over() const noexcept;

    /// Whether a rank has ended whose parent is still to take its status, which the kernel may tell
    /// us then; for a while, since that parent may hang. Look again at `deadline`.
    [[nodiscard]] bool awaits_status(std::chrono::steady_clock::time_point now);
    [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const noexcept {
        return look_again_at_;
    }

    /// A child that became ours has ended, such as a rank that mpirun left behind unreaped.
    void reaped(pid_t pid, int wait_status);

    /// The job ends: who comes now is sent away.
    void take_no_more() noexcept { takes_more_ = false; }

    /// mpirun has ended, or everything was killed: whose end nobody has told is gone, too.
    void end_all();

private:
    struct Rank {
        const ProcessSpec* spec = nullptr;
        std::optional<pid_t> pid;  // since its claim was taken
        UniqueFd pidfd;
        std::int64_t ended_ns = 0;  // 0: it runs
        pid_t killed_with = 0;      // the process at whose death we kill it, if any
        bool is_started = false;    // told so
        bool is_over = false;       // its end was told
        bool was_asked = false;     // to end, with its group
        bool is_induced = false;
    };

    struct Guest {
        UniqueFd socket;
        pid_t pid = 0;
        Rank* rank = nullptr;  // once its claim was taken
        ShimFrames frames;
    };

    using GuestId = std::uint64_t;

    void accept();
    void hear(GuestId id);
    [[nodiscard]] bool handle(Guest& guest);
    [[nodiscard]] bool take_claim(Guest& guest, const ShimClaim& claim);
    [[nodiscard]] bool send_order(const Guest& guest, const ShimOrder& order);
    [[nodiscard]] std::string reason_to_refuse(const ShimClaim& claim) const;
    [[nodiscard]] pid_t parent_of(const Guest& guest, const ShimClaim& claim);
    void watch_parent(pid_t parent);
    void parent_ended(pid_t parent);
    static void make_way();
    void fail(Rank& rank, const ShimFailure& failure);
    void close(GuestId id);
    void close_guest_of(const Rank& rank);
    void tell_started(Rank& rank);
    void watch(Rank& rank);
    void look(Rank& rank, std::uint32_t epoll_events);
    void tell_end(Rank& rank, std::optional<int> wait_status);
    [[nodiscard]] Rank* find(int rank) noexcept;

    JobPlan job_;
    HostPlan plan_;
    Surroundings to_;
    UniqueFd listener_;
    bool takes_more_ = true;
    bool has_stranger_ = false;
    std::set<pid_t> parents_;  // of ranks
    std::map<pid_t, UniqueFd> watched_parents_;
    std::map<pid_t, std::uint64_t> starters_;  // of strangers, and their start times
    std::vector<Rank> ranks_;
    bool is_whole_job_ = false;
    std::optional<std::chrono::steady_clock::time_point> look_again_at_;
    std::map<GuestId, Guest> guests_;
    GuestId next_guest_ = 0;
};

}  // namespace hvd::launch::agent
