// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/job_runner.hpp"

#include "collectives/base/text.hpp"
#include "launcher/net/io_thread.hpp"
#include "launcher/supervise/launch_trace.hpp"
#include "launcher/supervise/make_result.hpp"
#include "launcher/supervise/start_failure.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>

namespace hvd::launch {
namespace {

constexpr auto kDrainTimeoutAfterKill = std::chrono::seconds(2);

std::chrono::steady_clock::time_point as_time(std::int64_t steady_ns) {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(steady_ns));
}

std::int64_t as_ns(std::chrono::steady_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::string name_of(int rank, const LaunchPlan& plan) {
    const std::string program = plan.mode == "jsrun" ? "jsrun" : "mpirun";
    return rank == kLauncherRank ? program : "rank " + std::to_string(rank);
}

}  // namespace

JobRunner::JobRunner(IoThread& io,
                     AgentFleet& fleet,
                     JobSignals& signals,
                     const LaunchRequest& request,
                     JobContext context)
    : io_(io),
      fleet_(fleet),
      signals_(signals),
      request_(request),
      context_(std::move(context)),
      time_limit_(time_limit(request.limits, std::chrono::system_clock::now())),
      world_(fleet) {}

// ---- from the plan to its end ----

Result<Supervised> JobRunner::run(const LaunchPlan& plan, const RunStart& start) {
    HVD_TRY(auto starts, encode_starts(plan));
    HVD_TRY_STATUS(prepare(plan, start.notes));
    start_ranks(std::move(starts), start.deadline);
    auto& output = streams_->output();
    fleet_.starter().say_through([&](const std::string& sentence) { output.say(sentence); });
    io_.run();
    fleet_.starter().say_through({});
    signals_.listen({});
    streams_->restore_terminal();
    return Supervised{.result = end_->take_result(),
                      .is_console_abandoned = output.is_console_abandoned(),
                      .is_folder_abandoned = output.is_folder_abandoned()};
}

Status JobRunner::prepare(const LaunchPlan& plan, const std::string& notes) {
    plan_ = &plan;
    HVD_TRY(streams_, RankStreams::open(io_, fleet_, plan, request_, context_,
                                        {.on_progress = [this] { end_->go_on(); },
                                         .on_console_closed =
                                             [this] { perform(machine_->on_console_closed()); }}));
    if (!notes.empty()) {
        streams_->output().say_as_is(notes);
    }
    if (context_.caller) {
        caller_.emplace(
            io_, std::move(context_.caller),
            [this](std::size_t host, const wire::ToAgent& message) { fleet_.send(host, message); },
            [this] { on_caller_gone(); });
    }
    machine_.emplace(plan, request_.limits.on_failure);
    timers_.emplace(io_, *machine_, [this](JobAction action) { perform(action); });
    hosts_.emplace(io_, fleet_, plan, [this] { end_->go_on(); });
    rank_signals_.emplace(fleet_, plan, machine_->record());
    end_.emplace(JobEnd::Context{.io = io_,
                                 .fleet = fleet_,
                                 .plan = plan,
                                 .machine = *machine_,
                                 .streams = *streams_,
                                 .hosts = *hosts_,
                                 .time_limit = time_limit_ ? time_limit_->words : ""});
    news_.emplace(plan.hosts, request_.report.is_verbose);
    fleet_.listen(
        {.on_message = [this](std::size_t host,
                              wire::FromAgent message) { on_message(host, std::move(message)); },
         .on_end = [this](const AgentEnd& end) { on_end(end); },
         .on_silence = [this](std::size_t /*host*/,
                              const std::string& sentence) { streams_->output().say(sentence); }});
    signals_.listen({.on_stop_request = [this](int signal) { on_stop_request(signal); },
                     .on_other = [this](int signal) { on_other_signal(signal); }});
    return ok();
}

void JobRunner::start_ranks(std::vector<Frame> starts, Deadline deadline) {
    if (context_.trace != nullptr) {
        context_.trace->enter("start", io_.now());
    }
    fleet_.hurry_heartbeat();
    for (std::size_t host = 0; host < starts.size(); ++host) {
        fleet_.send_frame(host, std::move(starts[host]));
    }
    streams_->start_input(io_);
    timers_->limit_start(deadline);
    if (time_limit_) {
        timers_->limit_job(time_limit_->left);
    }
}

void JobRunner::perform(JobAction action) {
    auto& output = streams_->output();
    switch (action) {
        case JobAction::none:
        case JobAction::watch_exit: return;
        case JobAction::limit_exit:
            if (request_.limits.exit_timeout) {
                timers_->limit_exit(*request_.limits.exit_timeout);
            }
            return;
        case JobAction::ask:
            asked_end_at_ns_ = asked_end_at_ns_.value_or(fleet_.now_ns());
            rank_signals_->send(signals_.stop_signal());
            timers_->limit_grace(request_.limits.grace);
            [[fallthrough]];
        case JobAction::say_hint: output.say("stopping, Ctrl-C again to kill"); return;
        case JobAction::stop:
            asked_end_at_ns_ = asked_end_at_ns_.value_or(fleet_.now_ns());
            rank_signals_->ask_bare_launcher(SIGTERM);
            fleet_.send_all(wire::Stop{.grace_ms = request_.limits.grace.count()});
            if (machine_->record().cause.kind != Cause::Kind::rank_failed) {
                output.limit(io_.in(request_.limits.grace + kDrainTimeout));
            }
            return;
        case JobAction::kill:
            fleet_.send_all(wire::Stop{.grace_ms = 0});
            // Dead ranks cannot be told from a console that holds up their last output.
            output.limit(io_.in(kDrainTimeoutAfterKill));
            return;
        case JobAction::finish: begin_end(); return;
    }
}

void JobRunner::end_trace() {
    if (context_.trace == nullptr || !context_.on_all_started) {
        return;
    }
    context_.trace->finish(io_.now());
    if (request_.report.is_verbose) {
        streams_->output().say(context_.trace->critical_path());
    }
    if (const auto told = std::exchange(context_.on_all_started, nullptr)(); !told) {
        streams_->output().say(told.error().message);
    }
}

void JobRunner::begin_end() {
    timers_->cancel_all();
    end_->begin();
}

// ---- signals ----

void JobRunner::on_stop_request(int signal) {
    if (end_->has_begun()) {
        streams_->output().abandon_stuck();
        return;
    }
    const bool was_killing = machine_->state() == JobState::killing;
    perform(machine_->on_stop_signal(signal, io_.now()));
    if (was_killing) {
        streams_->output().abandon_stuck();
    }
}

void JobRunner::on_other_signal(int signal) {
    if (end_->has_begun()) {
        return;
    }
    streams_->on_signal(signal);
    if (signal != SIGWINCH) {  // a rank with a terminal hears of it there
        rank_signals_->send(signal);
    }
}

/// Nobody waits for the results any more.
void JobRunner::on_caller_gone() {
    if (!end_->has_begun()) {
        streams_->output().say("the program that called horovod.run has gone");
        on_stop_request(SIGTERM);
    }
}

// ---- hosts ----

void JobRunner::on_end(const AgentEnd& end) {
    if (end_->has_begun()) {
        end_->go_on();
    } else if (!hosts_->is_done(end.host)) {
        hosts_->clean_up(
            end.host, end.is_silent ? OrphanCleanup::kSilentHostTimeout : OrphanCleanup::kTimeout);
        lose_host(end.host,
                  {.host = fleet_.name(end.host), .time_ns = as_ns(end.since), .why = end.why});
    }
}

void JobRunner::lose_host(std::size_t host, HostLoss loss) {
    hosts_->lost(host);
    streams_->on_host_lost(host);
    world_.on_host_lost(plan_->hosts[host], machine_->record(), loss.why);
    perform(machine_->on_host_lost(std::move(loss)));
    finish_if_all_done();
}

void JobRunner::finish_if_all_done() {
    if (hosts_->are_all_done()) {
        perform(machine_->on_all_gone());
    }
}

bool JobRunner::knows(std::size_t host, int rank) {
    if (machine_->knows(rank)) {
        return true;
    }
    fleet_.refuse(host, {Errc::internal, "it spoke of rank " + std::to_string(rank) +
                                             ", which is not in the plan"});
    return false;
}

// ---- messages ----

void JobRunner::on_message(std::size_t host, wire::FromAgent message) {
    if (end_->has_begun() && !std::holds_alternative<wire::Note>(message)) {
        return;
    }
    std::visit([&](auto& event) { on(host, event); }, message);
}

void JobRunner::on(std::size_t host, wire::Started event) {
    if (!knows(host, event.rank)) {
        return;
    }
    event.time_ns = fleet_.to_our_clock(host, event.time_ns);
    if (request_.report.is_verbose) {
        streams_->output().say(name_of(event.rank, *plan_) + " started on " + fleet_.name(host) +
                               ", pid " + std::to_string(event.pid));
    }
    if (context_.trace != nullptr && context_.on_all_started) {
        context_.trace->started(host, event.rank, as_time(event.time_ns));
    }
    streams_->on_started(event.rank);
    perform(machine_->on_started(event));
    if (machine_->state() != JobState::starting) {
        timers_->all_have_started();
        end_trace();
    }
}

void JobRunner::on(std::size_t host, wire::StartFailed event) {
    event.time_ns = fleet_.to_our_clock(host, event.time_ns);
    if (knows(host, event.rank)) {
        perform(machine_->on_start_failed(event));
    }
}

void JobRunner::on(std::size_t host, wire::Output& event) {
    if (knows(host, event.rank)) {
        streams_->on(host, event);
    }
}

void JobRunner::on(std::size_t host, wire::RankReport event) {
    event.time_ns = fleet_.to_our_clock(host, event.time_ns);
    if (!knows(host, event.rank)) {
        return;
    }
    if (event.report.kind == coll::ReportKind::connected ||
        event.report.kind == coll::ReportKind::versions) {
        for (const auto& sentence : news_->add(host, event)) {
            streams_->output().say(sentence);
        }
        return;
    }
    if (event.report.kind == coll::ReportKind::start_timeout) {
        const auto late = world_.on_start_timeout(event.rank, machine_->record());
        machine_->on_start_timeout(std::move(event), late);
        return;
    }
    world_.on_report(event);
    if (machine_->on_report(event) == JobAction::watch_exit) {
        timers_->limit_teardown(event.rank);
    }
}

void JobRunner::on(std::size_t host, const wire::RankActivity& event) {
    if (knows(host, event.rank)) {
        machine_->on_activity(event);
    }
}

void JobRunner::on(std::size_t host, wire::Exited event) {
    if (!knows(host, event.rank)) {
        return;
    }
    event.time_ns = fleet_.to_our_clock(host, event.time_ns);
    if (event.is_killed_by_launcher && asked_end_at_ns_) {
        // Clocks differ by more than it takes a rank to end.
        event.time_ns = std::max(event.time_ns, *asked_end_at_ns_);
    }
    streams_->on_exited(event.rank);
    if (request_.report.is_verbose) {
        streams_->output().say(name_of(event.rank, *plan_) + " ended");
    }
    const auto index = static_cast<std::size_t>(event.rank);
    if (event.rank != kLauncherRank && streams_->tails()[index].has_traceback()) {
        machine_->on_traceback(event.rank);
    }
    const auto action = machine_->on_exited(event);
    if (action == JobAction::watch_exit) {
        timers_->limit_teardown(event.rank);
    }
    if (event.rank != kLauncherRank) {  // no rank waits for mpirun
        world_.on_exited(event.rank, machine_->record());
    }
    perform(action);
}

/// A key is of the function that horovod.run sends, or of a world.
void JobRunner::on_key(std::size_t host, auto& event) {
    if (!CallerStream::owns(event.key)) {
        world_.on(host, event, machine_->record());
    } else if (caller_) {
        caller_->on(host, event);
    } else {
        fleet_.send(host, CallerStream::refusal(event));
    }
}

void JobRunner::on(std::size_t host, const wire::Note& event) {
    streams_->output().say_as_is("horovodrun: host " + fleet_.name(host) + ": " + event.text +
                                 "\n");
}

void JobRunner::on(std::size_t host, const wire::StepSignal& event) {
    machine_->on_step_signal(event.signal);
    on(host, wire::Note{.text = "Slurm sent " + signal_name(event.signal) +
                                " to all processes of the step"});
}

/// Its agent still tells how the ranks there end, and that nothing is left.
void JobRunner::on(std::size_t host, const wire::Leaving& event) {
    perform(machine_->on_host_lost({.host = fleet_.name(host),
                                    .time_ns = fleet_.to_our_clock(host, event.time_ns),
                                    .why = event.why + ", and ended the ranks there",
                                    .has_left = true,
                                    .signal = event.signal}));
}

void JobRunner::on(std::size_t host, const wire::AllGone& event) {
    fleet_.expect_silence(host);
    hosts_->done(host, event.survivors);
    finish_if_all_done();
}

/// Answers only a Start: all questions were answered before.
void JobRunner::on(std::size_t host, wire::Checked& event) {
    std::vector<HostProblem> problems;
    for (auto& problem : event.problems) {
        problems.push_back({.host = fleet_.name(host), .problem = std::move(problem)});
    }
    if (problems.empty()) {
        return;
    }
    auto failure = failed_preflight(problems);
    failure.words.pop_back();  // the sentence of the result
    for (const auto& line : failure.words) {
        streams_->output().say(line);
    }
    end_->refuse(std::move(failure.result));
    perform(JobAction::finish);
}

}  // namespace hvd::launch
