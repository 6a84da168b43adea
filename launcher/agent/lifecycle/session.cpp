// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/session.hpp"

#include "collectives/base/text.hpp"
#include "launcher/agent/external/external_ranks.hpp"
#include "launcher/agent/io/clock.hpp"
#include "launcher/agent/probe/gpu_facts.hpp"
#include "launcher/agent/probe/host_facts.hpp"
#include "launcher/agent/processes/activity.hpp"
#include "launcher/agent/processes/signals.hpp"
#include "launcher/agent/ranks/spawned_ranks.hpp"
#include "launcher/wire/build_id.hpp"

#include <csignal>
#include <limits>
#include <utility>
#include <variant>

#include <unistd.h>

namespace hvd::launch::agent {
namespace {

using State = SessionLife::State;
using Event = SessionLife::Event;

/// Between TERM and KILL when the launcher has gone.
constexpr auto kAbandonedGrace = std::chrono::milliseconds(500);

/// For the kernel to take the last process out of the cgroup.
constexpr auto kCgroupTime = std::chrono::milliseconds(50);

std::string describe(const AgentSignal& signal) {
    return "the agent got " + signal_name(signal.number) +
           (signal.sender == 0 ? " from outside of its container"
                               : " from process " + std::to_string(signal.sender));
}

}  // namespace

Session::Session(const AgentSetup& setup)
    : setup_(setup),
      control_(loop_, setup.from_launcher, setup.to_launcher, setup.joined),
      output_(loop_, control_),
      input_(loop_),
      probe_(loop_, control_),
      processes_(setup.guard),
      lease_(loop_, control_, setup),
      signals_(loop_, setup.guard, setup.is_slurm_step, [this](const AgentSignal& signal) {
          on_signal(signal);
      }) {
    control_.open(
        {.on_message =
             [this](wire::ToAgent message) {
                 std::visit([this](auto& alternative) { on(alternative); }, message);
             },
         .on_end = [this](const std::optional<Error>& error) { on_launcher_gone(error); }});
}

int Session::run() {
    introduce();
    // After the facts are on their way: the launcher plans meanwhile.
    if (!setup_.is_slurm_step) {  // whose processes Slurm finds, and signals, in its own cgroup
        processes_.make_cgroup(JobCgroup::path_of(setup_.cgroup_name));
    }
    housekeeping_.start();
    while (true) {
        lease_.check();
        const auto now = std::chrono::steady_clock::now();
        probe_.time_passed(now);
        if (socket_) {
            socket_->time_passed(now);
        }
        housekeeping_.time_passed(now, processes_.cgroup());
        for (const int number : step_signals_.take_due(now)) {
            ranks_->signal(number);
        }
        advance(now);
        if (life_.is(State::over)) {
            control_.finish();
        }
        control_.flush();
        if (life_.is(State::over) && control_.is_flushed()) {
            break;
        }
        const bool is_busy = ranks_ && (ranks_->has_to_start() || processes_.has_ended_child());
        loop_.run_once(is_busy ? Deadline::in({}) : next_deadline());
    }
    leave();
    return setup_.joined ? exit_reason_.exit_code() : 0;
}

void Session::introduce() {
    control_.send(
        wire::Hello{.build_id = std::string(wire::build_id()), .pid = processes_.marks().agent});
    auto facts = collect_facts();
    facts.mark = probe_.same_host_name();
    if (may_have_gpus()) {
        control_.flush();
        auto found = find_gpus(setup_.given, setup_.from_launcher);
        facts.gpus = std::move(found.gpus);
        facts.gpu_driver = std::move(found.driver);
        facts.gpu_note = std::move(found.note);
    }
    control_.send(wire::Facts{.facts = std::move(facts)});
    control_.flush();
    if (::getppid() != setup_.guard) {
        stop({});
    }
}

/// One round: does what is due in this state, and goes on to the next where it can.
void Session::advance(TimePoint now) {
    if (ranks_) {
        if (termination_.is_stopping()) {
            ranks_->cancel_starts();
        }
        ranks_->advance(now);
        processes_.reap_ended(*ranks_);
        if (const auto progress = input_.take_progress(); progress > 0) {
            control_.send(wire::InputTaken{.bytes = progress});
        }
        perform(termination_.time_passed(now));
    }
    if (life_.is(State::running) && ranks_->is_over(now)) {
        (void)life_.on(Event::ranks_ended);
    }
    if (life_.is(State::clearing)) {
        clear(now);
    }
    if (life_.is(State::settling) && !step_signals_.is_expecting(now)) {
        (void)life_.on(Event::settled);
    }
    if (life_.is(State::draining)) {
        output_.finish();
        if (output_.is_finished() || control_.has_ended()) {
            control_.send(wire::AllGone{.survivors = std::exchange(survivors_, {})});
            (void)life_.on(Event::delivered);
        }
    }
    if (may_leave()) {
        (void)life_.on(Event::released);
    }
}

void Session::clear(TimePoint now) {
    if (processes_.is_any_left(*ranks_)) {
        perform(termination_.leftovers(grace_, now));
        return;
    }
    ranks_->finish();
    if (setup_.is_slurm_step && ranks_->was_any_killed()) {
        step_signals_.expect(now);  // the signal that ended the rank
        (void)life_.on(Event::signal_awaited);
    } else {
        (void)life_.on(Event::nothing_left);
    }
}

/// Of states in which the agent only waits for the launcher.
bool Session::may_leave() const {
    if (life_.is(State::connected)) {
        return control_.has_ended() || termination_.is_stopping();
    }
    return !setup_.joined || exit_reason_.is_known() || control_.has_ended();
}

Deadline Session::next_deadline() const {
    std::optional<TimePoint> next;
    for (const auto& end : {lease_.deadline(), control_.deadline(), termination_.deadline(),
                            probe_.deadline(), step_signals_.deadline(), housekeeping_.deadline(),
                            socket_ ? socket_->deadline() : std::nullopt,
                            ranks_ ? ranks_->deadline() : std::nullopt}) {
        if (end && (!next || *end < *next)) {
            next = end;
        }
    }
    return Deadline(next);
}

void Session::leave() {
    if (auto& cgroup = processes_.cgroup()) {
        if (housekeeping_.deadline() && termination_.is_stopping()) {
            cgroup->remove_abandoned();  // as the one that this agent came to sweep
        }
        cgroup->remove(Deadline::in(kCgroupTime));
    }
    if (setup_.joined) {
        print_error(exit_reason_.text());
    }
}

void Session::stop(std::chrono::milliseconds grace) {
    processes_.want_end();
    perform(termination_.stop(grace, std::chrono::steady_clock::now()));
}

/// Ends the ranks though the launcher has not asked for it, and tells the launcher so before they
/// end: what becomes of them and of ranks that wait for them follows from that.
void Session::leave_job(int signal, const std::string& why, std::chrono::milliseconds grace) {
    note(why + ": ending the job");
    if (life_.is(State::running) && !termination_.is_wanted()) {
        control_.send(wire::Leaving{.time_ns = steady_clock_ns(), .signal = signal, .why = why});
    }
    stop(grace);
}

void Session::perform(Termination::Action action) {
    if (action == Termination::Action::none || !ranks_) {
        return;
    }
    ranks_->refuse_new();
    processes_.reap(*ranks_);  // a rank that has ended already was not ended by the launcher
    switch (action) {
        case Termination::Action::none: return;
        case Termination::Action::term_ranks:
            if (ranks_->ends_by_itself()) {
                return;
            }
            if (step_signals_.was_heard(SIGTERM, std::chrono::steady_clock::now() - grace_)) {
                ranks_->mark_killed_by_launcher();
            } else {
                ranks_->signal(SIGTERM);
            }
            ranks_->signal(SIGCONT);  // a stopped process takes no other signal
            return;
        case Termination::Action::term_leftovers: processes_.term_leftovers(*ranks_); return;
        case Termination::Action::kill:
            step_signals_.drop_held();
            processes_.kill(*ranks_);
            return;
        case Termination::Action::give_up:
            if (life_.on(Event::gave_up)) {
                for (const auto& process : processes_.find(*ranks_)) {
                    survivors_.push_back({.pid = process.pid,
                                          .state = std::string(1, process.state),
                                          .wchan = wait_channel(process.pid)});
                }
            }
            return;
    }
}

void Session::on_launcher_gone(const std::optional<Error>& error) {
    if (error) {
        print_error(error->message);
    }
    // Nobody reads what the ranks write, and they must be able to write it to end in order.
    output_.grant(std::numeric_limits<std::uint32_t>::max());
    lease_.extend(std::chrono::steady_clock::now() + kAbandonedGrace + Termination::kKillTime);
    stop(kAbandonedGrace);
}

void Session::on_signal(const AgentSignal& signal) {
    const int number = signal.number;
    if (number == SIGCHLD) {
        processes_.child_ended();
    } else if (number == kGuardDiedSignal && ::getppid() != setup_.guard) {
        leave_job(0, "the agent's guard process was killed", {});
    } else if (setup_.is_slurm_step && (ranks_ || !is_stop_signal(number))) {
        on_step_signal(number);
    } else if (number != kGuardDiedSignal && !is_ignored(number)) {
        if (std::exchange(exit_reason_.stop_signal, number) != number) {
            leave_job(number, describe(signal), grace_);
        } else {
            stop(grace_);
        }
    }
}

/// The ranks, which are of the step, have it already.
void Session::on_step_signal(int number) {
    const bool is_new = step_signals_.hear(number, std::chrono::steady_clock::now());
    if (is_new && number != SIGCONT && reports_step_signals_) {
        control_.send(wire::StepSignal{.signal = number});
    }
}

void Session::note(std::string text) {
    control_.send(wire::Note{.text = std::move(text)});
}

void Session::on(wire::Start& start) {
    if (!life_.is(State::connected)) {
        note("a second Start was ignored");
        return;
    }
    auto& plan = start.plan;
    if (auto problems = probe_.check_start(plan); !problems.empty()) {
        control_.send(wire::Checked{.problems = std::move(problems)});
        return;
    }
    (void)life_.on(Event::started);
    processes_.set_job(start.job.id);
    output_.grant(start.output_window);
    if (plan.starter == kLocalStarter) {
        lease_.launcher_is_local();
    }
    grace_ = plan.grace;
    auto given = setup_.given;
    make_room(given, descriptors_for(plan));
    socket_.emplace(loop_, control_, start.job.id,
                    [this](int rank) { return ranks_ ? ranks_->pid_of(rank) : std::nullopt; });
    if (auto listening = socket_->listen(plan.agent_socket); !listening) {
        // Ranks that need it will say so; others run without.
        note("the agent cannot be reached by its ranks: " + listening.error().message);
    }
    reports_step_signals_ =
        plan.shim_socket.empty() && !plan.ranks.empty() && plan.ranks.front().rank == 0;
    housekeeping_.ranks_start(std::chrono::steady_clock::now());
    const RankContext context{.loop = loop_,
                              .control = control_,
                              .output = output_,
                              .input = input_,
                              .terminal = terminal_,
                              .oom = housekeeping_.oom(),
                              .socket = *socket_};
    const int cgroup = processes_.cgroup() ? processes_.cgroup()->folder() : -1;
    if (plan.shim_socket.empty()) {
        ranks_ = std::make_unique<SpawnedRanks>(std::move(start.job), std::move(plan), given,
                                                cgroup, context);
    } else {
        ranks_ = std::make_unique<ExternalRanks>(std::move(start.job), std::move(plan), given,
                                                 cgroup, processes_.marks(), context);
    }
}

void Session::on(const wire::Signal& signal) {
    if (!ranks_) {
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (is_stop_signal(signal.number)) {
        ranks_->cancel_starts();  // they would not get it, and run until they are killed
        termination_.ask(grace_, now);
    }
    if (setup_.is_slurm_step) {
        step_signals_.ask(signal.number, now, grace_);
    } else {
        ranks_->signal(signal.number);
    }
}

void Session::on(const wire::Stop& stop) {
    this->stop(std::chrono::milliseconds(stop.grace_ms));
}

void Session::on(const wire::PutDone& done) {
    if (socket_) {
        socket_->on(done);
    }
}

void Session::on(const wire::GetValue& value) {
    if (socket_) {
        socket_->on(value);
    }
}

void Session::on(const wire::PeerLost& lost) {
    if (socket_) {
        socket_->on(lost);
    }
}

void Session::on(const wire::Inspect& question) {
    const auto processes = list_processes();
    for (const int rank : question.ranks) {
        const auto pid = ranks_ ? ranks_->pid_of(rank) : std::nullopt;
        if (auto activity = pid ? activity_of(*pid, processes) : std::nullopt) {
            control_.send(wire::RankActivity{.rank = rank,
                                             .state = std::string(1, activity->state),
                                             .wait_channel = std::move(activity->wait_channel),
                                             .cpu_ms = activity->cpu_time.count()});
        }
    }
}

void Session::on(const wire::Ping& ping) {
    const auto heard_ns = steady_clock_ns();
    housekeeping_.build().is_in_use();
    lease_.renew(std::chrono::milliseconds(ping.lease_ms));
    control_.send(wire::Pong{
        .asked_ns = ping.asked_ns, .heard_ns = heard_ns, .answered_ns = steady_clock_ns()});
}

void Session::on(wire::Ended& ended) {
    exit_reason_.job_end = std::move(ended);
}

}  // namespace hvd::launch::agent
