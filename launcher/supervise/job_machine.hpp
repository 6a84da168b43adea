// SPDX-License-Identifier: Apache-2.0
//
// The life of a job: events in, one action out. No I/O, no clock; JobRunner performs the actions.
#pragma once

#include "launcher/model/launch_plan.hpp"
#include "launcher/model/launch_request.hpp"
#include "launcher/supervise/job_record.hpp"
#include "launcher/wire/messages.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvd::launch {

enum class JobState : std::uint8_t {
    starting,  // not every rank is there yet
    running,
    stopping,  // the ranks were told to end, and will be killed after the grace time
    asked,     // a person asked for the end and was told that asking again kills
    killing,
    done,
};

enum class JobEvent : std::uint8_t {
    all_started,
    trouble,     // something of the job failed: no rank is needed any more
    request,     // a person wants the end
    grace_over,  // the time that was given with it is over
    all_gone,    // no process of the job is left
};

enum class JobAction : std::uint8_t {
    none,
    stop,        // TERM to all ranks, KILL after the grace time
    ask,         // pass the person's signal to all ranks, KILL after the grace time, say the hint
    say_hint,    // say that a second signal kills
    kill,        // KILL now
    watch_exit,  // call on_teardown_over for the rank after kTeardownTime
    limit_exit,  // the first rank has ended, others go on: call on_exit_limit after --exit-timeout
    finish,      // everything of the job is gone
};

class JobMachine final {
public:
    using TimePoint = std::chrono::steady_clock::time_point;

    /// How long a rank that has reported its exception may take to end with its own exit code, and
    /// the others to fail by the same: an error in the program mostly reaches all ranks.
    static constexpr auto kTeardownTime = std::chrono::seconds(2);

    /// Two signals within this time are one request: timeout(1) sends TERM to its child and to the
    /// child's process group, a closing terminal sends HUP from kernel and shell, and a service
    /// manager signals horovodrun and the agent beside it.
    static constexpr auto kOneRequest = std::chrono::milliseconds(200);

    explicit JobMachine(const LaunchPlan& plan, OnFailure on_failure = OnFailure::stop);

    JobAction on_started(const wire::Started& event);
    JobAction on_start_failed(const wire::StartFailed& event);
    JobAction on_report(const wire::RankReport& event);
    /// `event` is a rank's report that it has given up hvd.init(), to which `late` have not come.
    void on_start_timeout(wire::RankReport event, const std::vector<int>& late);
    void on_activity(const wire::RankActivity& event);
    JobAction on_exited(const wire::Exited& event);
    /// Its last words are an exception; told before its end.
    void on_traceback(int number) { rank(number).has_traceback = true; }
    JobAction on_teardown_over(int number);
    JobAction on_stop_signal(int signal, TimePoint now);
    /// A rank that this signal ends has not failed.
    void on_step_signal(int signal) { record_.step_signals.insert(signal); }
    JobAction on_grace_over();
    JobAction on_time_limit();
    JobAction on_start_limit();
    JobAction on_exit_limit();
    /// Its agent has gone, or leaves the job; of the two that which comes first counts.
    JobAction on_host_lost(HostLoss loss);
    JobAction on_console_closed();
    JobAction on_all_gone();

    [[nodiscard]] JobState state() const noexcept { return state_; }
    [[nodiscard]] const JobRecord& record() const noexcept { return record_; }

    /// Whether an event about this rank makes sense; an agent that sends another is not ours.
    [[nodiscard]] bool knows(int rank) const noexcept;

private:
    [[nodiscard]] RankRecord& rank(int number);
    JobAction step(JobEvent event);
    JobAction trouble(Cause::Kind kind);
    JobAction rank_trouble();
    [[nodiscard]] bool may_reach_others(const RankRecord& failed) const;
    [[nodiscard]] bool was_told_to_agents(int signal, TimePoint now) const;
    void note_cause(Cause::Kind kind);
    JobAction count_start();
    JobAction count_end();

    JobState state_ = JobState::starting;
    JobRecord record_;
    OnFailure on_failure_;
    std::size_t waiting_to_start_;
    bool is_exit_limited_ = false;
    std::optional<TimePoint> asked_at_;
};

}  // namespace hvd::launch
