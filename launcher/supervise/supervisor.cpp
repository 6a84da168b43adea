// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/supervisor.hpp"

#include "launcher/supervise/make_result.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>
#include <variant>

#include <unistd.h>

namespace hvd::launch {
namespace {

/// What the console may still take once a person or a time limit has ended the job.
constexpr auto kDrainPatience = std::chrono::seconds(10);
constexpr auto kDrainPatienceAfterKill = std::chrono::seconds(2);

/// How long an agent may take to end once its ranks are gone.
constexpr auto kAgentPatience = std::chrono::seconds(5);

/// How long Ctrl-Z waits for agents to be told: one that cannot be reached has its lease.
constexpr auto kPausePatience = std::chrono::seconds(1);

}  // namespace

Supervisor::Supervisor(IoThread& io, const BlockedSignals& signals, SuperviseOptions options)
    : io_(io),
      options_(std::move(options)),
      start_deadline_(io.in(options_.start_timeout)),
      agents_(
          {.on_message = [this](std::size_t host,
                                wire::FromAgent message) { on_message(host, std::move(message)); },
           .on_end = [this](std::size_t host) { on_agent_end(host); },
           .on_heard = [this](std::size_t host) { pulse_->heard(host, io_.now()); }}),
      signals_(io, signals, [this](int number) { on_signal(number); }),
      start_timer_(io),
      job_timer_(io),
      grace_timer_(io),
      exit_timer_(io),
      pulse_timer_(io),
      pause_timer_(io) {}

// ---- running ----

Result<Supervised> Supervisor::run(const LaunchPlan& plan) {
    HVD_TRY(auto starts, encode_starts(plan));
    plan_ = &plan;
    HVD_TRY_STATUS(open_output());
    machine_.emplace(plan, options_.on_failure);
    tails_.assign(machine_->record().ranks.size() + 1,  // the last is the launcher's
                  StderrTail(options_.error_lines));
    gone_.resize(agents_.size());
    versions_.emplace(plan.hosts);
    sweeper_.emplace(io_, *starter_, [this] { continue_draining(); });
    phase_ = Phase::running;
    if (options_.trace != nullptr) {
        options_.trace->enter("start", io_.now());
    }
    start_ranks(std::move(starts));
    pulse_->hurry(io_.now());
    wait_for_pulse();
    starter_->say_through([this](const std::string& sentence) { output_->say(sentence); });
    io_.run();
    starter_->say_through({});
    return Supervised{.result = *std::move(result_),
                      .is_console_abandoned = output_->is_console_abandoned(),
                      .is_folder_abandoned = output_->is_folder_abandoned()};
}

Status Supervisor::open_output() {
    options_.output.ranks = plan_->np;
    options_.output.places.resize(static_cast<std::size_t>(plan_->np));
    for (const auto& host : plan_->hosts) {
        for (const auto& rank : host.ranks) {
            options_.output.places[static_cast<std::size_t>(rank.rank)] = {
                .host = host.host, .local_rank = rank.local_rank};
        }
    }
    HVD_TRY(output_, OutputFlow::create(io_, agents_, options_.output,
                                        {.on_progress = [this] { continue_draining(); },
                                         .on_console_closed =
                                             [this] { perform(machine_->on_console_closed()); }}));
    if (!notes_.empty()) {
        output_->say_as_is(notes_);
    }
    return ok();
}

void Supervisor::start_ranks(std::vector<Frame> starts) {
    started_at_ = io_.now();
    std::vector<std::size_t> readers;
    for (std::size_t host = 0; host < plan_->hosts.size(); ++host) {
        const auto& host_plan = plan_->hosts[host];
        agents_.send_frame(host, std::move(starts[host]));
        if (host_plan.stdin_all || host_plan.stdin_rank != -1) {  // a rank, or kLauncherRank
            readers.push_back(host);
        }
    }
    if (!readers.empty()) {
        input_.emplace(io_, agents_, readers);
    }
    start_timer_.set(start_deadline_, [this] { perform(machine_->on_start_limit()); });
    if (options_.timeout) {
        job_timer_.set(io_.in(*options_.timeout), [this] { perform(machine_->on_time_limit()); });
    }
}

void Supervisor::on_signal(int number) {
    if (!is_stop_request(number)) {
        pass_on(number);
        return;
    }
    switch (phase_) {
        case Phase::linking:
            stop_signal_ = number;
            fail_link({Errc::aborted, "stopped by " + signal_name(number)});
            return;
        case Phase::running: {
            const bool was_killing = machine_->state() == JobState::killing;
            stop_signal_ = number;
            perform(machine_->on_stop_signal(number, io_.now()));
            if (was_killing) {
                output_->abandon_stuck();
            }
            return;
        }
        case Phase::draining: output_->abandon_stuck(); return;
        case Phase::over: return;
    }
}

void Supervisor::pass_on(int number) {
    if (phase_ == Phase::running) {
        signal_ranks(number);
    }
    if (number == SIGCONT && std::exchange(is_pausing_, false)) {
        go_on();  // a stop that has not come yet is called off
    }
    if (number == SIGTSTP && !std::exchange(is_pausing_, true)) {
        // The ranks are told first: once stopped, this process cannot tell them. Nor can it tell
        // the agents that it lives, so their lease rests.
        for (const auto host : pulse_->hosts()) {
            agents_.send(host, wire::Ping{.asked_ns = 0, .lease_ms = 0});
        }
        pulse_->pause();
        pause_timer_.set(io_.in(kPausePatience), [this] { stop_for_now(); });
        agents_.when_all_sent([this] { stop_for_now(); });
    }
}

/// jsrun may be on a host without ranks, whose agent cannot tell whether there are any.
bool Supervisor::has_bare_launcher(std::size_t host) const {
    const auto& plan = plan_->hosts[host];
    return plan.ranks.empty() && !plan.launchers.empty();
}

/// Hears of signals as long as it has started nobody to whom it would pass them on.
void Supervisor::ask_bare_launcher(int number) {
    if (std::ranges::any_of(machine_->record().ranks,
                            [](const RankRecord& rank) { return rank.started.has_value(); })) {
        return;
    }
    for (std::size_t host = 0; host < plan_->hosts.size(); ++host) {
        if (has_bare_launcher(host)) {
            agents_.send(host, wire::Signal{.number = number});
        }
    }
}

void Supervisor::signal_ranks(int number) {
    ask_bare_launcher(number);
    for (std::size_t host = 0; host < plan_->hosts.size(); ++host) {
        if (!has_bare_launcher(host)) {
            agents_.send(host, wire::Signal{.number = number});
        }
    }
}

void Supervisor::stop_for_now() {
    if (!std::exchange(is_pausing_, false)) {
        return;
    }
    stop_self();
    go_on();
}

void Supervisor::go_on() {
    pause_timer_.cancel();
    pulse_->resume(io_.now());
    feel_pulse();
}

void Supervisor::perform(JobAction action) {
    switch (action) {
        case JobAction::none:
        case JobAction::watch_exit: return;
        case JobAction::limit_exit:
            if (options_.exit_timeout) {
                exit_timer_.set(io_.in(*options_.exit_timeout),
                                [this] { perform(machine_->on_exit_limit()); });
            }
            return;
        case JobAction::ask:
            signal_ranks(stop_signal_);
            grace_timer_.set(io_.in(options_.grace),
                             [this] { perform(machine_->on_grace_over()); });
            [[fallthrough]];
        case JobAction::say_hint: output_->say("stopping, Ctrl-C again to kill"); return;
        case JobAction::stop:
            ask_bare_launcher(SIGTERM);
            agents_.send_all(wire::Stop{.grace_ms = options_.grace.count()});
            if (machine_->record().cause.kind != Cause::Kind::rank_failed) {
                output_->limit(io_.in(options_.grace + kDrainPatience));
            }
            return;
        case JobAction::kill:
            agents_.send_all(wire::Stop{.grace_ms = 0});
            // Dead ranks cannot be told from a console that holds up their last output.
            output_->limit(io_.in(kDrainPatienceAfterKill));
            return;
        case JobAction::finish: begin_draining(); return;
    }
}

void Supervisor::begin_draining() {
    phase_ = Phase::draining;
    start_timer_.cancel();
    job_timer_.cancel();
    exit_timer_.cancel();
    input_.reset();
    output_->all_ended();
    tell_job_end();
    agents_.close();
    grace_timer_.set(io_.in(kAgentPatience), [this] {
        has_given_up_agents_ = true;
        continue_draining();
    });
    // A job that ended by itself has its output delivered, however long its reader takes.
    const auto cause = machine_->record().cause.kind;
    if (cause != Cause::Kind::none && cause != Cause::Kind::rank_failed) {
        output_->limit(io_.in(kDrainPatience));
    }
    continue_draining();
}

/// Two rounds: all that the ranks wrote, then the last words.
void Supervisor::continue_draining() {
    const bool is_settled = agents_.all_ended() && sweeper_->is_idle();
    if (phase_ != Phase::draining || !(is_settled || has_given_up_agents_) || !output_->is_idle()) {
        return;
    }
    if (!result_) {
        std::ranges::move(sweeper_->take_survivors(), std::back_inserter(survivors_));
        result_ = make_result();
        const auto words = format_last_words(*result_);
        if (!words.empty()) {
            output_->say_as_is(words, format_last_words(*result_, Values::hidden));
            if (!output_->is_idle()) {
                return;
            }
        }
    }
    phase_ = Phase::over;
    io_.stop();
}

/// As it is known before the agents have ended, to those that end with the job's exit code.
void Supervisor::tell_job_end() {
    const auto known = launch::make_result({.plan = *plan_,
                                            .record = machine_->record(),
                                            .tails = tails_,
                                            .hosts = {},
                                            .survivors = {},
                                            .unswept = {},
                                            .warnings = {},
                                            .seconds = 0,
                                            .time_limit = options_.timeout_words,
                                            .is_brief = true});
    constexpr std::string_view kPrefix = "horovodrun: ";
    const auto words = format_last_words(known);
    const auto line = std::string_view(words).substr(0, words.find('\n'));
    agents_.tell_job_end({.exit_code = known.exit_code,
                          .text = std::string(line.substr(std::min(line.size(), kPrefix.size())))});
}

JobResult Supervisor::make_result() {
    std::vector<HostResult> hosts;
    for (std::size_t host = 0; host < agents_.size(); ++host) {
        const auto& error = agents_.end_of(host);
        hosts.push_back({.host = agents_.host(host),
                         .state = error ? "lost" : "ok",
                         .error = error ? error->message : std::string()});
    }
    const std::chrono::duration<double> lasted = io_.now() - started_at_;
    return launch::make_result({.plan = *plan_,
                                .record = machine_->record(),
                                .tails = tails_,
                                .hosts = std::move(hosts),
                                .survivors = std::move(survivors_),
                                .unswept = sweeper_->take_unswept(),
                                .warnings = output_->losses(),
                                .seconds = lasted.count(),
                                .time_limit = options_.timeout_words});
}

void Supervisor::end_trace() {
    if (options_.trace == nullptr || !options_.on_all_started) {
        return;
    }
    options_.trace->finish(io_.now());
    if (options_.verbose) {
        output_->say(options_.trace->critical_path());
    }
    if (const auto told = std::exchange(options_.on_all_started, nullptr)(); !told) {
        output_->say(told.error().message);
    }
}

void Supervisor::watch_exit(int rank) {
    teardown_timers_.emplace_back(io_).set(io_.in(JobMachine::kTeardownTime), [this, rank] {
        perform(machine_->on_teardown_over(rank));
    });
}

void Supervisor::finish_if_all_gone() {
    if (std::ranges::all_of(gone_, [](bool gone) { return gone; })) {
        perform(machine_->on_all_gone());
    }
}

}  // namespace hvd::launch
