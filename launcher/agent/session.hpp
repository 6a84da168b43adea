// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/agent/agent.hpp"
#include "launcher/agent/answers.hpp"
#include "launcher/agent/brought_ranks.hpp"
#include "launcher/agent/control_stream.hpp"
#include "launcher/agent/ending.hpp"
#include "launcher/agent/event_loop.hpp"
#include "launcher/agent/idle_watch.hpp"
#include "launcher/agent/input_feeder.hpp"
#include "launcher/agent/job_cgroup.hpp"
#include "launcher/agent/lease.hpp"
#include "launcher/agent/old_builds.hpp"
#include "launcher/agent/oom_watch.hpp"
#include "launcher/agent/output_pump.hpp"
#include "launcher/agent/process_table.hpp"
#include "launcher/agent/rank_socket.hpp"
#include "launcher/agent/ranks.hpp"
#include "launcher/agent/step_signals.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch::agent {

/// The agent's whole work: hears the launcher, the ranks and the kernel, and lets the parts act.
class Session final {
public:
    /// Throws Exception when the process is out of descriptors.
    explicit Session(const AgentSetup& setup);

    /// Until the launcher has gone before it started anything, or nothing of the job is left.
    [[nodiscard]] int run();

private:
    void introduce();
    void do_chores();
    void hear_signals();
    void hear_step_signal(int number);
    void on_launcher_gone(const std::optional<Error>& error);
    [[nodiscard]] Deadline next_deadline() const;
    void check_lease();
    void show_lease();
    [[nodiscard]] bool is_launcher_stopped() const;
    void settle();
    void settle_ending();
    void bring(wire::Start& start);
    void signal_ranks(int number);
    [[nodiscard]] bool is_any_running() const;
    [[nodiscard]] bool awaits_status();
    void perform(Ending::Action action);
    void watch_launcher();
    void reap();
    void tell_all_gone();
    void note(std::string text);
    [[nodiscard]] int exit_code() const;
    [[nodiscard]] std::vector<Process> others() const;

    void on(wire::Start& start);
    void on(const wire::Signal& signal);
    void on(const wire::Stop& stop);
    void on(const wire::Input& input);
    void on(const wire::Credit& credit);
    void on(const wire::PutDone& done);
    void on(const wire::GetValue& value);
    void on(const wire::PeerLost& lost);
    void on(const wire::Ping& ping);
    void on(wire::Ended& ended);
    void on(const auto& question) { answers_.on(question); }

    AgentSetup setup_;
    EventLoop loop_;
    ControlStream control_;
    OutputPump output_;
    InputFeeder input_;
    std::optional<JobCgroup> cgroup_;  // of the ranks
    std::optional<std::chrono::steady_clock::time_point> chores_at_;
    OomWatch oom_;
    Ending ending_;
    Lease lease_;
    std::uint64_t heard_bytes_ = 0;  // of the launcher, when the lease was looked at last
    bool is_local_ = false;          // the launcher is on this machine
    bool is_stopped_ = false;        // the launcher, when the lease was over last
    bool has_told_pause_ = false;    // since it was heard last
    OwnBuild build_;
    JobMarks marks_;
    Answers answers_;
    UniqueFd signals_;
    std::optional<RankSocket> socket_;
    std::optional<BroughtRanks> brought_;  // where mpirun starts the ranks; `ranks_` is mpirun then
    std::optional<Ranks> ranks_;
    std::chrono::milliseconds grace_{0};     // of the plan
    bool has_launcher_ = false;              // mpirun, or jsrun, is ours to start
    bool is_bare_launcher_ = false;          // and no rank comes to this host
    std::string launcher_name_;              // as it was written
    IdleWatch launcher_watch_;               // whether it ends when its ranks have
    bool has_children_ = true;               // as far as we know
    bool is_child_change_ = false;           // a child has ended since we looked
    bool was_killed_ = false;                // we have sent a KILL
    std::optional<wire::AllGone> all_gone_;  // once nobody is left, or nothing more can be done
    bool has_told_all_gone_ = false;
    int stop_signal_ = 0;  // that we got ourselves
    StepSignals step_signals_;
    bool has_first_rank_ = false;  // and speaks for the step
    std::optional<wire::Ended> job_end_;
};

}  // namespace hvd::launch::agent
