// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/claimed_ranks.hpp"

#include "collectives/base/env.hpp"
#include "collectives/base/pidfd.hpp"
#include "collectives/base/unix_socket.hpp"
#include "collectives/launch_contract/mpi_job.hpp"
#include "launcher/agent/io/clock.hpp"
#include "launcher/agent/processes/process_table.hpp"
#include "launcher/agent/processes/signals.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// mpirun's daemon takes in the end of a rank at once, unless it hangs or is being killed.
constexpr auto kStatusTime = std::chrono::seconds(2);

/// Before Linux 6.15 nothing tells that it has been taken in.
constexpr auto kLookAgain = std::chrono::milliseconds(20);

/// So that a launcher which starts ranks one after the other does not wait for the agent at each
/// claim or end. SCHED_BATCH takes no CPU from a process that runs. Another policy than the usual
/// one is the user's choice.
void lower_priority() {
    if (::sched_getscheduler(0) == SCHED_OTHER) {
        const sched_param none{};
        (void)::sched_setscheduler(0, SCHED_BATCH, &none);
    }
}

}  // namespace

ClaimedRanks::ClaimedRanks(JobPlan job, HostPlan plan, RankContext context)
    : job_(std::move(job)),
      plan_(std::move(plan)),
      context_(context),
      shims_(context.loop,
             {.on_claim = [this](auto id,
                                 pid_t shim,
                                 const ShimClaim& claim) { return answer(id, shim, claim); },
              .on_failure = [this](auto id,
                                   const ShimFailure& failure) { fail(rank_of(id), failure); },
              .on_executed = [this](auto id) { tell_started(rank_of(id)); }}),
      parents_(context.loop, [this](pid_t parent) { parent_ended(parent); }) {
    ranks_.resize(plan_.ranks.size());
    const auto text = hvd::find(job_.ranks_env, coll::kEnvMpiJob);
    const auto mpi_job = coll::decode_mpi_job(text.value_or(""));
    is_whole_job_ = mpi_job && std::cmp_equal(mpi_job->size(), ranks_.size());
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
        ranks_[index].spec = &plan_.ranks[index];
    }
}

/// With the write ends of the rank's pipes: mpirun would cut lines where writes end, and mix them.
/// Where there is no descriptor left for pipes, mpirun forwards what the rank writes.
ShimListener::Answer ClaimedRanks::answer(ShimListener::ConnectionId id,
                                          pid_t shim,
                                          const ShimClaim& claim) {
    ShimListener::Answer answer{.reply = {.refusal = reason_to_refuse(claim)}, .streams = {}};
    if (!answer.reply.refusal.empty()) {
        return answer;
    }
    auto& rank = *std::ranges::find(ranks_, claim.rank,
                                    [](const Rank& candidate) { return candidate.spec->rank; });
    auto& reply = answer.reply;
    reply.env = added_environment(job_, plan_, *rank.spec);
    reply.is_env_clean = job_.is_env_clean;
    if (reply.is_env_clean) {
        reply.env.merge(common_environment(job_, plan_));
    }
    reply.cpus.assign(rank.spec->cpus.begin(), rank.spec->cpus.end());
    rank.pid = shim;
    rank.shim = id;
    rank.pidfd = open_pidfd(shim);
    const pid_t parent = parents_.parent_of(shim, claim);
    watch(rank);
    if (claim.needs_watch && parent > 0) {
        rank.killed_with = parent;
        parents_.watch(parent);
    }
    if (claim.starts_in_turn) {
        lower_priority();
    }
    answer.streams = context_.output.open(rank.spec->rank);
    return answer;
}

void ClaimedRanks::parent_ended(pid_t parent) {
    for (const auto& rank : ranks_) {
        if (rank.killed_with == parent && !rank.is_over && rank.ended_ns == 0) {
            (void)send_signal_by(rank.pidfd.get(), *rank.pid, SIGKILL);
        }
    }
}

std::string ClaimedRanks::reason_to_refuse(const ShimClaim& claim) const {
    const auto who = "rank " + std::to_string(claim.rank);
    if (claim.build_id != wire::build_id()) {
        return who + " was started by hvd-agent of build '" + claim.build_id +
               "', horovodrun is of build '" + std::string(wire::build_id()) +
               "': install both from one build";
    }
    if (claim.job_id != job_.id) {
        return who + " belongs to job " + claim.job_id + ", this agent to job " + job_.id;
    }
    if (!takes_more_) {
        return who + " comes too late: the job is ending";
    }
    const auto found = std::ranges::find_if(
        ranks_, [&](const Rank& rank) { return rank.spec->rank == claim.rank; });
    if (found == ranks_.end()) {
        return who + " was not planned on " + plan_.host;
    }
    if (found->pid) {
        return who + " is process " + std::to_string(*found->pid) +
               " already; each rank may be started once";
    }
    return {};
}

void ClaimedRanks::fail(Rank& rank, const ShimFailure& failure) {
    if (std::exchange(rank.is_over, true)) {
        return;
    }
    context_.control.send(wire::StartFailed{.rank = rank.spec->rank,
                                            .step = failure.step,
                                            .error_number = failure.error_number,
                                            .why_not_executed = failure.why_not_executed,
                                            .time_ns = steady_clock_ns()});
}

void ClaimedRanks::tell_started(Rank& rank) {
    if (!rank.is_over && !std::exchange(rank.is_started, true)) {
        context_.control.send_soon(
            wire::Started{.rank = rank.spec->rank, .pid = *rank.pid, .time_ns = steady_clock_ns()});
    }
}

void ClaimedRanks::watch(Rank& rank) {
    if (rank.pidfd) {
        // Once for its end, and where the kernel has it once more for its status.
        context_.loop.watch(rank.pidfd.get(), EPOLLIN | EPOLLET,
                            [this, &rank](std::uint32_t events) { look(rank, events); });
    }
}

void ClaimedRanks::look(Rank& rank, std::uint32_t epoll_events) {
    if (rank.ended_ns == 0) {
        rank.ended_ns = steady_clock_ns();
    }
    const auto status = exit_status(rank.pidfd.get());
    if (status || (epoll_events & EPOLLHUP) != 0) {
        tell_end(rank, status);
    }
}

void ClaimedRanks::tell_end(Rank& rank, std::optional<int> wait_status) {
    if (rank.pidfd) {
        context_.loop.forget(rank.pidfd.get());
        rank.pidfd.reset();
    }
    if (rank.shim) {
        shims_.drain(*rank.shim);
    }
    if (rank.is_over) {
        return;
    }
    tell_started(rank);
    rank.is_over = true;
    context_.output.rank_ended(rank.spec->rank);
    context_.socket.rank_ended(rank.spec->rank);
    const int status = wait_status.value_or(0);
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    context_.control.send(wire::Exited{
        .rank = rank.spec->rank,
        .time_ns = rank.ended_ns == 0 ? steady_clock_ns() : rank.ended_ns,
        .wait_status = status,
        .is_killed_by_launcher = rank.is_killed_by_launcher,
        .oom = was_killed && !rank.is_killed_by_launcher ? context_.oom.take_kill(*rank.pid) : "",
        .max_rss_bytes = 0,
        .is_unseen = !wait_status});
}

std::optional<pid_t> ClaimedRanks::pid_of(int rank) const noexcept {
    for (const auto& candidate : ranks_) {
        if (candidate.spec->rank == rank && !candidate.is_over) {
            return candidate.pid;
        }
    }
    return std::nullopt;
}

bool ClaimedRanks::has_any_come() const noexcept {
    return std::ranges::any_of(ranks_, [](const Rank& rank) { return rank.pid.has_value(); });
}

bool ClaimedRanks::have_all_come() const noexcept {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.pid || rank.is_over; });
}

bool ClaimedRanks::is_any_running() const noexcept {
    return std::ranges::any_of(
        ranks_, [](const Rank& rank) { return rank.pid && rank.ended_ns == 0 && !rank.is_over; });
}

bool ClaimedRanks::is_whole_job_over() const noexcept {
    return is_whole_job_ && have_all_come() && !is_any_running();
}

bool ClaimedRanks::awaits_status(TimePoint now) {
    const auto oldest = steady_clock_ns() - std::chrono::nanoseconds(kStatusTime).count();
    const bool awaits = std::ranges::any_of(ranks_, [oldest](const Rank& rank) {
        return !rank.is_over && rank.ended_ns > oldest && rank.pidfd &&
               send_signal_by(rank.pidfd.get(), *rank.pid, 0);
    });
    look_again_at_ = awaits ? std::optional(now + kLookAgain) : std::nullopt;
    return awaits;
}

void ClaimedRanks::child_ended(const EndedChild& child) {
    const auto found = std::ranges::find_if(
        ranks_, [&](const Rank& rank) { return rank.pid == child.pid && !rank.is_over; });
    if (found != ranks_.end()) {
        tell_end(*found, child.wait_status);
    }
}

void ClaimedRanks::signal(int number) {
    for (auto& rank : ranks_) {
        if (!rank.pid || rank.is_over || rank.ended_ns != 0) {
            continue;
        }
        rank.is_killed_by_launcher =
            rank.is_killed_by_launcher || number == SIGTERM || number == SIGKILL;
        rank.was_asked = rank.was_asked || is_stop_signal(number);
        const bool leads_group = ::getpgid(*rank.pid) == *rank.pid;
        if (leads_group && is_for_group(number)) {
            (void)::kill(-*rank.pid, number);
        } else {
            (void)send_signal_by(rank.pidfd.get(), *rank.pid, number);
        }
    }
}

bool ClaimedRanks::was_asked(pid_t group) const noexcept {
    return std::ranges::any_of(
        ranks_, [group](const Rank& rank) { return rank.pid == group && rank.was_asked; });
}

void ClaimedRanks::mark_killed_by_launcher() noexcept {
    for (auto& rank : ranks_) {
        rank.is_killed_by_launcher = true;
        rank.was_asked = rank.was_asked || rank.ended_ns == 0;
    }
}

void ClaimedRanks::end_all() {
    for (auto& rank : ranks_) {
        if (rank.pid && !rank.is_over) {
            tell_end(rank, rank.pidfd ? exit_status(rank.pidfd.get()) : std::nullopt);
        }
    }
}

ClaimedRanks::Rank& ClaimedRanks::rank_of(ShimListener::ConnectionId id) {
    return *std::ranges::find(ranks_, id, &Rank::shim);
}

}  // namespace hvd::launch::agent
