// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/session.hpp"

#include "launcher/agent/facts.hpp"
#include "launcher/agent/first_process.hpp"
#include "launcher/agent/gpu_facts.hpp"
#include "launcher/agent/lease_board.hpp"
#include "launcher/wire/build_id.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// Between TERM and KILL when the launcher has gone.
constexpr auto kAbandonedGrace = std::chrono::milliseconds(500);

/// In which Slurm has given a signal to all processes of a step on a host.
constexpr auto kStepSignalTime = std::chrono::milliseconds(50);

/// Slurm sends these to steps too; USR2 has another meaning besides (kGuardDiedSignal).
constexpr std::array kStepSignals{SIGUSR1, SIGTSTP, SIGCONT};

UniqueFd open_signals(bool is_slurm_step) {
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGCHLD);
    ::sigaddset(&wanted, kGuardDiedSignal);
    for (const int number : kStopSignals) {
        ::sigaddset(&wanted, number);
    }
    for (const int number : kStepSignals) {
        if (is_slurm_step) {
            ::sigaddset(&wanted, number);
        }
    }
    UniqueFd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        throw Exception(system_error("signalfd", errno));
    }
    return fd;
}

}  // namespace

Session::Session(const AgentSetup& setup)
    : setup_(setup),
      control_(loop_, setup.from_launcher, setup.to_launcher, setup.joined),
      output_(loop_, control_),
      input_(loop_),
      marks_{.guard = setup.guard, .agent = ::getpid(), .job_id = {}},
      answers_(loop_, control_),
      signals_(open_signals(setup.is_slurm_step)) {
    loop_.watch(signals_.get(), EPOLLIN, [this](std::uint32_t) { hear_signals(); });
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
        cgroup_ = JobCgroup::make(JobCgroup::path_of(setup_.cgroup_name));
    }
    oom_.start();
    build_.start();
    while (true) {
        check_lease();
        const auto now = std::chrono::steady_clock::now();
        answers_.time_passed(now);
        if (chores_at_ && now >= *chores_at_) {
            chores_at_.reset();
            do_chores();
        }
        for (const int number : step_signals_.take_due(now)) {
            signal_ranks(number);
        }
        settle();
        control_.flush();
        const bool may_leave =
            !setup_.joined || job_end_ || control_.has_ended() || stop_signal_ != 0;
        const bool is_over = (has_told_all_gone_ && may_leave) ||
                             (!ranks_ && (control_.has_ended() || ending_.is_stopping()));
        if (is_over && control_.is_flushed()) {
            if (cgroup_ && chores_at_ && ending_.is_stopping()) {
                cgroup_->remove_abandoned();  // as the one that we came to sweep
            }
            cgroup_.reset();
            return exit_code();
        }
        const bool is_busy = ranks_ && (ranks_->has_to_start() || is_child_change_);
        loop_.run_once(is_busy ? Deadline::in({}) : next_deadline());
    }
}

/// To whoever started an agent that joined, with one line of what happened.
int Session::exit_code() const {
    constexpr int kSignalBase = 128;
    constexpr int kLauncherLost = 125;
    if (!setup_.joined) {
        return 0;
    }
    if (stop_signal_ != 0) {
        complain("left the job, asked by signal " + std::to_string(stop_signal_));
        return kSignalBase + stop_signal_;
    }
    if (job_end_) {
        complain("the job has ended with exit code " + std::to_string(job_end_->exit_code) +
                 (job_end_->text.empty() ? "" : ": " + job_end_->text));
        return job_end_->exit_code;
    }
    complain("horovodrun has gone; the ranks of this host were ended");
    return kLauncherLost;
}

Deadline Session::next_deadline() const {
    const auto lease = control_.has_ended() ? std::nullopt : lease_.end();
    std::optional<std::chrono::steady_clock::time_point> next;
    for (const auto& end :
         {lease, control_.deadline(), ending_.deadline(), launcher_watch_.deadline(),
          answers_.deadline(), step_signals_.deadline(), chores_at_,
          brought_ ? brought_->deadline() : std::nullopt}) {
        if (end && (!next || *end < *next)) {
            next = end;
        }
    }
    return Deadline(next);
}

void Session::introduce() {
    control_.send(wire::Hello{.build_id = std::string(wire::build_id()), .pid = marks_.agent});
    auto facts = collect_facts();
    facts.mark = answers_.mark();
    if (may_have_gpus()) {
        control_.flush();
        auto found = find_gpus(setup_.given, setup_.from_launcher);
        facts.gpus = std::move(found.gpus);
        facts.gpu_note = std::move(found.note);
    }
    control_.send(wire::Facts{.facts = std::move(facts)});
    control_.flush();
    if (::getppid() != setup_.guard) {
        perform(ending_.stop({}, std::chrono::steady_clock::now()));
    }
}

void Session::do_chores() {
    oom_.start_log();
    build_.remove_old();
    if (cgroup_) {
        oom_.narrow_to(cgroup_->path() + "/memory.events");
        cgroup_->remove_abandoned();
    }
}

void Session::on_launcher_gone(const std::optional<Error>& error) {
    if (error) {
        complain(error->message);
    }
    // Nobody reads what the ranks write, and they must be able to write it to end in order.
    output_.grant(std::numeric_limits<std::uint32_t>::max());
    const auto now = std::chrono::steady_clock::now();
    if (lease_.end() && setup_.lease_board != nullptr) {
        setup_.lease_board->post(now + kAbandonedGrace + Ending::kKillTime);
    }
    perform(ending_.stop(kAbandonedGrace, now));
}

void Session::settle() {
    if (!ranks_) {
        return;
    }
    if (ending_.is_stopping()) {
        ranks_->cancel_starts();
    }
    ranks_->start_some();
    if (std::exchange(is_child_change_, false)) {
        reap();
    }
    if (const auto progress = input_.take_progress(); progress > 0) {
        control_.send(wire::InputTaken{.bytes = progress});
    }
    perform(ending_.time_passed(std::chrono::steady_clock::now()));
    watch_launcher();
    if (!all_gone_ && !ranks_->has_to_start() && !is_any_running() && !awaits_status()) {
        settle_ending();
    }
    if (all_gone_ && !has_told_all_gone_) {
        tell_all_gone();
    }
}

/// Open MPI 4.1 with PMIx 4.2 now and then waits for itself when its ranks left without
/// MPI_Finalize. They are zombies then, and their ends are told once it is gone.
void Session::watch_launcher() {
    const bool is_idle = has_launcher_ && ranks_->is_any_running() &&
                         brought_->is_whole_job_over() && !output_.is_held_up();
    if (!launcher_watch_.is_overdue(is_idle, std::chrono::steady_clock::now())) {
        return;
    }
    const auto launcher = ranks_->pid_of(kLauncherRank);
    const auto left = others();
    if (!launcher || left.size() != 1 || left.front().pid != *launcher) {
        return;  // somebody else of the job lives, for whom it may wait
    }
    note(launcher_name_ + " (pid " + std::to_string(*launcher) + ") has not ended for " +
         std::to_string(IdleWatch::kGrace.count()) + " s after the last rank: ending it");
    ranks_->mark_induced();
    send_signal(left.front(), SIGKILL);
}

void Session::reap() {
    const auto left = ranks_->reap([this](pid_t pid, int wait_status) {
        if (brought_) {
            brought_->reaped(pid, wait_status);
        }
    });
    has_children_ = left != Ranks::Children::none;
    is_child_change_ = is_child_change_ || left == Ranks::Children::ended;
}

/// Ranks that mpirun starts are over with it; on a host without it, once all have come and gone.
bool Session::is_any_running() const {
    if (!brought_ || has_launcher_) {
        return ranks_->is_any_running();
    }
    return brought_->is_any_running() || (!brought_->have_all_come() && !ending_.is_stopping());
}

/// Of a rank that mpirun's daemon on this host started. Where mpirun itself is, it ends later.
bool Session::awaits_status() {
    return brought_ && !has_launcher_ && brought_->awaits_status(std::chrono::steady_clock::now());
}

void Session::settle_ending() {
    reap();
    // Without a child there is no descendant: we are their subreaper. Only a KILL, or ranks that
    // somebody else started, are worth the look at every process.
    const bool has_strangers = brought_ && (!has_launcher_ || brought_->has_stranger());
    const bool may_be_elsewhere = was_killed_ || has_strangers;
    if (has_children_ || (may_be_elsewhere && !others().empty())) {
        perform(ending_.leftovers(grace_, std::chrono::steady_clock::now()));
    } else {
        if (brought_) {
            brought_->end_all();
        }
        if (setup_.is_slurm_step && ranks_->was_any_killed()) {
            // It tells one process after the other: what killed the rank may not be here yet.
            std::this_thread::sleep_for(kStepSignalTime);
            hear_signals();
        }
        all_gone_.emplace();
    }
}

void Session::tell_all_gone() {
    output_.finish();
    if (output_.is_finished() || control_.has_ended()) {
        control_.send(*all_gone_);
        has_told_all_gone_ = true;
    }
}

void Session::perform(Ending::Action action) {
    if (action == Ending::Action::none || !ranks_) {
        return;
    }
    if (brought_) {
        brought_->take_no_more();
    }
    reap();  // who has ended already was not ended by us
    switch (action) {
        case Ending::Action::none: return;
        case Ending::Action::term_ranks:
            if (is_bare_launcher_) {
                return;  // it ends with its ranks, which others end
            }
            if (!step_signals_.was_heard(SIGTERM, std::chrono::steady_clock::now() - grace_)) {
                signal_ranks(SIGTERM);
            } else {
                ranks_->mark_induced();
            }
            signal_ranks(SIGCONT);  // a stopped process hears nothing else
            return;
        case Ending::Action::term_leftovers:
            for (const auto& process : others()) {
                const pid_t group = ::getpgid(process.pid);
                if (!ranks_->was_asked(group) && !(brought_ && brought_->was_asked(group))) {
                    send_signal(process, SIGTERM);
                }
                send_signal(process, SIGCONT);
            }
            return;
        case Ending::Action::kill: {
            was_killed_ = true;
            step_signals_.drop_held();
            ranks_->mark_induced();
            if (brought_) {
                brought_->mark_induced();
            }
            if (cgroup_) {
                (void)cgroup_->kill();
            }
            for (const auto& process : others()) {
                send_signal(process, SIGKILL);
            }
            return;
        }
        case Ending::Action::give_up:
            all_gone_.emplace();
            for (const auto& process : others()) {
                all_gone_->survivors.push_back(describe_survivor(process));
            }
            return;
    }
}

/// mpirun would pass a signal on in a way of its own, and give the ranks no time to react. It ends
/// with the last of them, so it hears of one itself only while there is none.
void Session::signal_ranks(int number) {
    if (brought_ && brought_->has_any_come()) {
        brought_->signal(number);
    } else if (!brought_ || number != SIGCONT) {
        ranks_->signal(number);
    }
}

std::vector<Process> Session::others() const {
    auto found = find_job(marks_);
    if (brought_ && !has_launcher_ && !ending_.is_wanted()) {
        brought_->leave_out_starters(found);
    }
    return found;
}

void Session::note(std::string text) {
    control_.send(wire::Note{.text = std::move(text)});
}

}  // namespace hvd::launch::agent
