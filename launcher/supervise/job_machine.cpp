// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_machine.hpp"

#include "collectives/base/assert.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd::launch {

namespace {

struct Transition {
    JobState state;
    JobEvent event;
    JobState next;
    JobAction action;
};

// The whole story. What is not listed changes nothing.
constexpr std::array<Transition, 13> kLife{{
    {JobState::starting, JobEvent::all_started, JobState::running, JobAction::none},
    {JobState::starting, JobEvent::trouble, JobState::stopping, JobAction::stop},
    {JobState::starting, JobEvent::request, JobState::asked, JobAction::ask},
    {JobState::starting, JobEvent::all_gone, JobState::done, JobAction::finish},

    {JobState::running, JobEvent::trouble, JobState::stopping, JobAction::stop},
    {JobState::running, JobEvent::request, JobState::asked, JobAction::ask},
    {JobState::running, JobEvent::all_gone, JobState::done, JobAction::finish},

    {JobState::stopping, JobEvent::request, JobState::asked, JobAction::say_hint},
    {JobState::stopping, JobEvent::all_gone, JobState::done, JobAction::finish},

    {JobState::asked, JobEvent::request, JobState::killing, JobAction::kill},
    {JobState::asked, JobEvent::grace_over, JobState::killing, JobAction::kill},
    {JobState::asked, JobEvent::all_gone, JobState::done, JobAction::finish},

    {JobState::killing, JobEvent::all_gone, JobState::done, JobAction::finish},
}};

}  // namespace

JobMachine::JobMachine(const LaunchPlan& plan, OnFailure on_failure)
    : on_failure_(on_failure), waiting_to_start_(static_cast<std::size_t>(plan.np)) {
    record_.ranks.resize(static_cast<std::size_t>(plan.np));
    for (const auto& host : plan.hosts) {
        for (const auto& spec : host.launchers) {
            record_.launcher.emplace();
            record_.launcher->rank = spec.rank;
            record_.launcher->host = host.host;
        }
        for (const auto& spec : host.ranks) {
            auto& entry = rank(spec.rank);
            entry.rank = spec.rank;
            entry.local_rank = spec.local_rank;
            entry.host = host.host;
        }
    }
}

JobAction JobMachine::on_started(const wire::Started& event) {
    rank(event.rank).started = event;
    return event.rank == kLauncherRank ? JobAction::none : count_start();
}

JobAction JobMachine::on_start_failed(const wire::StartFailed& event) {
    rank(event.rank).start_failed = event;
    return trouble(Cause::Kind::rank_failed);
}

JobAction JobMachine::on_report(const wire::RankReport& event) {
    auto& entry = rank(event.rank);
    if (event.report.kind == coll::ReportKind::peer_lost && !entry.peer_lost) {
        entry.peer_lost = event;
    }
    if (event.report.kind == coll::ReportKind::stalled && event.report.peer >= 0 &&
        knows(event.report.peer) && !rank(event.report.peer).missed) {
        rank(event.report.peer).missed = event;
    }
    if (event.report.kind == coll::ReportKind::exception && !entry.exception) {
        entry.exception = event;
        return JobAction::watch_exit;
    }
    return JobAction::none;
}

void JobMachine::on_start_timeout(wire::RankReport event, const std::vector<int>& late) {
    for (const int number : late) {
        auto& entry = rank(number);
        event.report.peer = number;
        entry.missed = entry.missed.value_or(event);
    }
    if (auto& entry = rank(event.rank); !late.empty()) {
        entry.peer_lost = entry.peer_lost.value_or(event);
    }
}

void JobMachine::on_activity(const wire::RankActivity& event) {
    auto& entry = rank(event.rank);
    entry.activity = entry.activity.value_or(event);
}

JobAction JobMachine::on_exited(const wire::Exited& event) {
    rank(event.rank).exited = event;
    if (event.rank == kLauncherRank) {
        // Its status tells of ranks that nobody saw end. Without it none comes any more.
        const bool is_failure =
            (event.wait_status != 0 && !event.is_killed_by_launcher) || waiting_to_start_ > 0;
        return is_failure ? trouble(Cause::Kind::rank_failed) : JobAction::none;
    }
    const bool is_failure = event.wait_status != 0 && !event.is_killed_by_launcher;
    const auto& ended = rank(event.rank);
    if (is_failure && may_reach_others(ended)) {
        note_cause(Cause::Kind::rank_failed);
        return ended.exception ? JobAction::none : JobAction::watch_exit;
    }
    const auto action = is_failure ? rank_trouble() : JobAction::none;
    return action == JobAction::none ? count_end() : action;
}

JobAction JobMachine::on_teardown_over(int number) {
    const auto& exited = rank(number).exited;
    return exited && exited->wait_status == 0 ? JobAction::none : rank_trouble();
}

JobAction JobMachine::on_stop_signal(int signal, TimePoint now) {
    if (asked_at_ && now - *asked_at_ < kOneRequest) {
        return JobAction::none;
    }
    asked_at_ = now;
    const auto cause = record_.cause.kind;
    if (cause == Cause::Kind::none ||
        (cause == Cause::Kind::host_lost && was_told_to_agents(signal, now))) {
        record_.cause = {.kind = Cause::Kind::interrupted, .signal = signal};
    }
    return step(JobEvent::request);
}

JobAction JobMachine::on_grace_over() {
    return step(JobEvent::grace_over);
}

JobAction JobMachine::on_time_limit() {
    return trouble(Cause::Kind::time_limit);
}

JobAction JobMachine::on_start_limit() {
    return state_ == JobState::starting ? trouble(Cause::Kind::start_limit) : JobAction::none;
}

JobAction JobMachine::on_exit_limit() {
    return trouble(Cause::Kind::exit_limit);
}

JobAction JobMachine::on_host_lost(HostLoss loss) {
    if (std::ranges::find(record_.lost_hosts, loss.host, &HostLoss::host) ==
        record_.lost_hosts.end()) {
        record_.lost_hosts.push_back(std::move(loss));
    }
    // Before all have started nobody can do without the ranks of that host.
    return on_failure_ == OnFailure::wait && state_ != JobState::starting
               ? JobAction::none
               : trouble(Cause::Kind::host_lost);
}

JobAction JobMachine::on_console_closed() {
    return trouble(Cause::Kind::console_closed);
}

JobAction JobMachine::on_all_gone() {
    return step(JobEvent::all_gone);
}

bool JobMachine::knows(int rank) const noexcept {
    if (rank == kLauncherRank) {
        return record_.launcher.has_value();
    }
    return rank >= 0 && static_cast<std::size_t>(rank) < record_.ranks.size();
}

RankRecord& JobMachine::rank(int number) {
    HVD_ASSERT(knows(number), "a rank of the plan");
    if (number == kLauncherRank) {
        return *record_.launcher;
    }
    return record_.ranks[static_cast<std::size_t>(number)];
}

JobAction JobMachine::step(JobEvent event) {
    const auto* row = std::ranges::find_if(kLife, [&](const Transition& transition) {
        return transition.state == state_ && transition.event == event;
    });
    if (row == kLife.end()) {
        return JobAction::none;
    }
    state_ = row->next;
    return row->action;
}

void JobMachine::note_cause(Cause::Kind kind) {
    if (record_.cause.kind == Cause::Kind::none) {
        record_.cause = {.kind = kind, .signal = 0};
    }
}

JobAction JobMachine::trouble(Cause::Kind kind) {
    note_cause(kind);
    return step(JobEvent::trouble);
}

JobAction JobMachine::rank_trouble() {
    return on_failure_ == OnFailure::wait ? JobAction::none : trouble(Cause::Kind::rank_failed);
}

JobAction JobMachine::count_start() {
    --waiting_to_start_;
    return waiting_to_start_ == 0 ? step(JobEvent::all_started) : JobAction::none;
}

/// Whether ranks that still run may be about to fail by the same exception.
bool JobMachine::may_reach_others(const RankRecord& failed) const {
    return on_failure_ == OnFailure::stop && (failed.exception || failed.has_traceback) &&
           !std::ranges::all_of(record_.ranks, &RankRecord::has_ended);
}

/// Whether an agent left the job by the same request, of which it has spoken first.
bool JobMachine::was_told_to_agents(int signal, TimePoint now) const {
    return std::ranges::any_of(record_.lost_hosts, [&](const HostLoss& loss) {
        const TimePoint left_at{std::chrono::nanoseconds(loss.time_ns)};
        return loss.signal == signal && now - left_at < kOneRequest;
    });
}

/// The first end that stops nobody starts the clock of --exit-timeout.
JobAction JobMachine::count_end() {
    const bool is_going_on = state_ == JobState::starting || state_ == JobState::running;
    if (!is_going_on || std::exchange(is_exit_limited_, true)) {
        return JobAction::none;
    }
    return JobAction::limit_exit;
}

}  // namespace hvd::launch
