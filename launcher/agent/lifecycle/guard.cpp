// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/lifecycle/guard.hpp"

#include "collectives/base/process_limit.hpp"
#include "collectives/base/text.hpp"
#include "launcher/agent/lifecycle/agent.hpp"
#include "launcher/agent/lifecycle/pid1_signals.hpp"
#include "launcher/agent/lifecycle/shared_lease.hpp"
#include "launcher/agent/lifecycle/termination.hpp"
#include "launcher/agent/processes/job_cgroup.hpp"
#include "launcher/agent/processes/process_table.hpp"
#include "launcher/agent/processes/reaper.hpp"
#include "launcher/agent/processes/spawner.hpp"
#include "launcher/model/exit_code.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// For the kernel to take the last process out of the cgroup.
constexpr auto kCgroupTime = std::chrono::milliseconds(50);

/// Blocks every signal and returns what the mask and the other things were that ranks get again.
Inheritance take_over() {
    Inheritance given;
    sigset_t all;
    ::sigfillset(&all);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): called in a program of one thread
    (void)::sigprocmask(SIG_SETMASK, &all, &given.signal_mask);
    struct sigaction child {};
    (void)::sigaction(SIGCHLD, nullptr, &child);
    if (child.sa_handler == SIG_IGN) {
        // Children would vanish without telling how they ended.
        given.ignores_sigchld = true;
        struct sigaction standard {};
        standard.sa_handler = SIG_DFL;
        (void)::sigaction(SIGCHLD, &standard, nullptr);
    }
    return given;
}

/// Waits for the end of a child, for a change of the agent's lease, or for a signal that asks for
/// an end, until `limit` if there is one. Returns the signal.
siginfo_t await_signal(std::optional<std::chrono::steady_clock::time_point> limit) {
    siginfo_t came{};
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGCHLD);
    ::sigaddset(&wanted, kLeaseSignal);
    for (const int number : kStopSignals) {
        ::sigaddset(&wanted, number);
    }
    if (!limit) {
        (void)::sigwaitinfo(&wanted, &came);
        return came;
    }
    const auto left =
        std::max(*limit - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(0));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec time{.tv_sec = seconds.count(),
                        .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
    (void)::sigtimedwait(&wanted, &came, &time);
    return came;
}

/// Slurm signals all processes of a step by itself.
enum class Signals { passed_on, left_alone };

/// A request to end goes to the agent, which ends its ranks first, with the number of the process
/// that asked. A signal of a terminal the agent gets itself.
void pass_on(const siginfo_t& came, pid_t agent) {
    const bool is_stop = std::ranges::find(kStopSignals, came.si_signo) != kStopSignals.end();
    if (is_stop && came.si_code <= 0) {
        (void)::sigqueue(agent, came.si_signo, {.sival_int = came.si_pid});
    }
}

/// Until the agent has ended; gives its wait status. One that hangs beyond its lease is killed.
int await_agent(pid_t agent, const SharedLease& lease, Signals signals) {
    HungAgent hung;
    while (true) {
        int status = 0;
        const pid_t ended = ::waitpid(agent, &status, WNOHANG);
        if (ended == agent || (ended < 0 && errno != EINTR)) {
            return status;
        }
        if (hung.is_certain(lease.end(), std::chrono::steady_clock::now())) {
            (void)::kill(agent, SIGKILL);  // not reaped yet, so its number is still its own
            (void)await_signal({});
        } else {
            const auto came = await_signal(hung.next_look());
            if (signals == Signals::passed_on) {
                pass_on(came, agent);
            }
        }
    }
}

/// Reaps children that have ended. Whether one is left.
bool has_children() {
    return reap_children([](const EndedChild&) {}) != Children::none;
}

/// Kills and reaps everything that the agent left to us: it has been reaped, so that all of them
/// are ours by now, and its number may be another's. False when something withstands.
bool end_orphans(const std::optional<JobCgroup>& cgroup) {
    const auto give_up_at = std::chrono::steady_clock::now() + Termination::kKillTime;
    while (has_children()) {
        if (std::chrono::steady_clock::now() >= give_up_at) {
            return false;
        }
        if (cgroup) {
            (void)cgroup->kill();
        }
        for (const auto& process :
             find_job({.guard = ::getpid(), .agent = ::getpid(), .job_id = {}})) {
            send_signal(process, SIGKILL);
        }
        (void)await_signal(std::chrono::steady_clock::now() + Termination::kKillAgain);
    }
    return true;
}

int guard(pid_t agent, const SharedLease& lease, Signals signals, std::string_view cgroup_name) {
    const int status = await_agent(agent, lease, signals);
    // An agent that ends in order removes the cgroup, unless somebody withstands.
    const bool is_over = status == 0 && !has_children();
    auto cgroup = is_over ? std::nullopt : JobCgroup::find(JobCgroup::path_of(cgroup_name));
    const bool is_clean = end_orphans(cgroup);
    if (cgroup) {
        cgroup->remove(Deadline::in(kCgroupTime));
    }
    if (WIFSIGNALED(status)) {
        print_error("the agent was killed by " + signal_name(WTERMSIG(status)));
        return exit_code_of_signal(WTERMSIG(status));
    }
    return WEXITSTATUS(status) == 0 && !is_clean ? kExitLauncherFailure : WEXITSTATUS(status);
}

}  // namespace

int run_guarded_agent(int from_launcher,
                      int to_launcher,
                      std::optional<wire::Encryption> joined,
                      bool is_slurm_step) {
    const auto given = take_over();
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t guard_pid = ::getpid();
    const auto cgroup_name = JobCgroup::new_name();
    SharedLease lease;
    // Where we were started as the leader of a session, our agent stays in it: who kills its
    // process group, as horovodrun does with a remote shell, kills both.
    const bool needs_session = !joined && ::getsid(0) != guard_pid;
    const pid_t agent = ::fork();
    if (agent < 0) {
        print_error(process_error("fork", errno).message);
        return kExitLauncherFailure;
    }
    if (needs_session) {
        // Each its own, and after the fork: a new session is a new scheduling group
        // (sched_autogroup), and a process that enters one waits behind horovodrun on its CPU.
        (void)::setsid();
    }
    if (agent > 0) {
        // Where it was put behind us on this CPU, it goes first: somebody waits for it.
        (void)::sched_yield();
        for (const int stream : {from_launcher, to_launcher, STDIN_FILENO, STDOUT_FILENO}) {
            (void)::close(stream);
        }
        if (!joined) {
            (void)::close(STDERR_FILENO);
        }
        const int exit_code = guard(
            agent, lease, is_slurm_step ? Signals::left_alone : Signals::passed_on, cgroup_name);
        ::_exit(exit_code);  // as the agent: who started us waits for it
    }
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)::prctl(PR_SET_PDEATHSIG, kGuardDiedSignal);
    return run_agent({.from_launcher = from_launcher,
                      .to_launcher = to_launcher,
                      .guard = guard_pid,
                      .shared_lease = &lease,
                      .cgroup_name = cgroup_name,
                      .given = given,
                      .joined = std::move(joined),
                      .is_slurm_step = is_slurm_step});
}

}  // namespace hvd::launch::agent
