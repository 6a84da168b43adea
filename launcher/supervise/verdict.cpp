// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/verdict.hpp"

#include "collectives/base/text.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/supervise/late_rank.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <sys/wait.h>

namespace hvd::launch {
namespace {

constexpr int kLeftEarlyExit = 1;
constexpr int kStalledExit = 1;
constexpr int kExceptionExit = 1;  // as Python exits after an uncaught exception

/// A rank that handles TERM may exit with 0 in the middle of a failure.
bool ended_badly(const RankRecord& rank) {
    return rank.exited && (rank.exited->wait_status != 0 ||
                           (rank.exited->is_killed_by_launcher && rank.exception));
}

bool ended_well(const RankRecord& rank) {
    return rank.exited && !ended_badly(rank);
}

/// Neither the way in which we end ranks, nor the way in which a rank ends when it is asked to.
bool cannot_be_ours(const wire::Exited& exited) {
    if (!WIFSIGNALED(exited.wait_status)) {
        return false;
    }
    const int signal = WTERMSIG(exited.wait_status);
    return !exited.oom.empty() || (signal != SIGTERM && signal != SIGKILL);
}

/// The rank left without failing itself, perhaps so slowly that the launcher had to end it.
bool has_left(const RankRecord& rank) {
    return ended_well(rank) ||
           (rank.exited && rank.exited->is_killed_by_launcher && !rank.exception &&
            !rank.peer_lost && !cannot_be_ours(*rank.exited));
}

/// Whether it fails because a peer went away. What it reported first is the reason.
bool fails_for_a_peer(const RankRecord& rank) {
    return rank.peer_lost && !(rank.exception && rank.exception->time_ns < rank.peer_lost->time_ns);
}

/// Others have given up since this rank has kept them waiting, before anything else became of it.
bool is_stalling(const RankRecord& rank) {
    const auto comes_first = [&](const auto& event) {
        return !event || rank.missed->time_ns <= event->time_ns;
    };
    return rank.missed && comes_first(rank.exception) && comes_first(rank.peer_lost) &&
           (comes_first(rank.exited) || !ended_badly(rank));
}

/// The time at which this rank itself failed, if it did.
std::optional<std::int64_t> own_failure(const RankRecord& rank) {
    if (rank.start_failed) {
        return rank.start_failed->time_ns;
    }
    if (is_stalling(rank)) {
        return rank.missed->time_ns;
    }
    if (fails_for_a_peer(rank)) {
        return std::nullopt;
    }
    if (!rank.exited && rank.exception) {
        return rank.exception->time_ns;  // its host was lost before it ended
    }
    if (!ended_badly(rank)) {
        return std::nullopt;
    }
    const auto& exited = *rank.exited;
    if (rank.exception) {
        return std::min(rank.exception->time_ns, exited.time_ns);
    }
    if (exited.is_killed_by_launcher && !cannot_be_ours(exited)) {
        return std::nullopt;
    }
    return exited.time_ns;
}

bool is_missed_by_a_peer(const JobRecord& record, int rank) {
    return std::ranges::any_of(record.ranks, [&](const RankRecord& other) {
        return other.peer_lost && ended_badly(other) && other.peer_lost->report.peer == rank;
    });
}

/// Nobody failed by itself and nobody is missed: then the first who lost a peer is all we have.
std::optional<int> first_who_lost_a_peer(const JobRecord& record) {
    const RankRecord* first = nullptr;
    for (const auto& rank : record.ranks) {
        if (ended_badly(rank) && rank.peer_lost && !rank.exited->is_killed_by_launcher &&
            (first == nullptr || rank.peer_lost->time_ns < first->peer_lost->time_ns)) {
            first = &rank;
        }
    }
    return first == nullptr ? std::nullopt : std::optional(first->rank);
}

struct Blamed {
    std::optional<int> rank;
    std::optional<HostLoss> host;
};

/// The signal by which the rank has ended, also where a shell or the rank itself passes it on as an
/// exit code; else 0.
int signal_of_end(const RankRecord& rank) {
    if (!rank.exited || !rank.exited->oom.empty()) {
        return 0;
    }
    const int status = rank.exited->wait_status;
    return WIFSIGNALED(status) ? WTERMSIG(status)
                               : std::max(0, WEXITSTATUS(status) - exit_code_of_signal(0));
}

/// Whether the signal that told the agent of its host to leave has ended the rank, too: the drain
/// of a node may signal all processes there, in any order.
bool ended_with_its_host(const JobRecord& record, const RankRecord& rank) {
    const int signal = signal_of_end(rank);
    return signal != 0 && std::ranges::any_of(record.lost_hosts, [&](const HostLoss& loss) {
               return loss.host == rank.host && loss.signal == signal;
           });
}

/// Whether a rank that has not failed has left ranks that waited for it. One that was ended did not
/// leave by itself where the agent of a host did: it is a consequence of that, whatever the clocks
/// of the hosts say.
bool has_left_others(const JobRecord& record, const RankRecord& rank) {
    return has_left(rank) && is_missed_by_a_peer(record, rank.rank) &&
           !(rank.exited->is_killed_by_launcher &&
             std::ranges::any_of(record.lost_hosts, &HostLoss::has_left));
}

Blamed find_culprit(const JobRecord& record) {
    Blamed blamed;
    auto earliest = std::numeric_limits<std::int64_t>::max();
    for (const auto& loss : record.lost_hosts) {
        if (loss.time_ns < earliest) {
            earliest = loss.time_ns;
            blamed.host = loss;
        }
    }
    const auto consider = [&](const RankRecord& rank, std::optional<std::int64_t> since) {
        const bool is_of_host = !rank.exception && ended_with_its_host(record, rank);
        if (!is_of_host && since && *since < earliest) {
            earliest = *since;
            blamed = {.rank = rank.rank, .host = {}};
        }
    };
    for (const auto& rank : record.ranks) {
        consider(rank, own_failure(rank));
    }
    for (const auto& rank : record.ranks) {  // later: a failure may be why ranks left just then
        if (!own_failure(rank) && has_left_others(record, rank)) {
            consider(rank, rank.exited->time_ns);
        }
    }
    if (!blamed.rank && !blamed.host) {
        blamed.rank = first_who_lost_a_peer(record);
    }
    return blamed;
}

bool is_kill(const wire::Exited& exited) {
    return WIFSIGNALED(exited.wait_status) && WTERMSIG(exited.wait_status) == SIGKILL;
}

/// mpirun did not end with 0, or before it had started all ranks. It has not failed where the
/// launcher ended it after all ranks had ended.
bool launcher_failed(const JobRecord& record) {
    const auto& launcher = record.launcher;
    const auto is_missing = [](const RankRecord& rank) { return !rank.started; };
    const auto was_seen = [](const RankRecord& rank) {
        return rank.exited && !rank.exited->is_unseen;
    };
    if (!launcher || (launcher->exited && launcher->exited->is_killed_by_launcher &&
                      std::ranges::all_of(record.ranks, was_seen))) {
        return false;
    }
    return launcher->start_failed || ended_badly(*launcher) ||
           (launcher->exited && std::ranges::any_of(record.ranks, is_missing));
}

/// Its status only passes on that of a rank, mostly; but when it was killed, so were its ranks.
bool is_launcher_to_blame(const JobRecord& record, const Blamed& blamed) {
    if (!launcher_failed(record) || blamed.host) {
        return false;
    }
    if (!blamed.rank) {
        return true;
    }
    const auto& launcher = *record.launcher;
    const auto& rank = record.ranks[static_cast<std::size_t>(*blamed.rank)];
    return launcher.exited && !launcher.exited->is_killed_by_launcher &&
           WIFSIGNALED(launcher.exited->wait_status) && rank.exited && is_kill(*rank.exited);
}

struct Blame {
    Reason reason;
    int exit_code;
};

/// Nobody but another process sends KILL: who reads this should look for who did.
std::string describe_signal(int number) {
    return number == SIGKILL ? "killed by SIGKILL from outside" : "signal " + signal_name(number);
}

Blame blame_for_start(const wire::StartFailed& failed) {
    if (failed.why_not_executed.empty()) {
        return {Reason::start, kExitLauncherFailure};
    }
    return {Reason::exec, exit_code_of_exec(failed.error_number)};
}

Blame blame(const RankRecord& culprit) {
    if (culprit.start_failed) {
        return blame_for_start(*culprit.start_failed);
    }
    if (is_stalling(culprit)) {
        return {Reason::stalled, kStalledExit};
    }
    if (has_left(culprit)) {
        return {Reason::left_early, kLeftEarlyExit};
    }
    if (!culprit.exited) {
        return {Reason::exit, kExceptionExit};
    }
    const auto& exited = *culprit.exited;
    const bool ended_by_us = exited.is_killed_by_launcher && !cannot_be_ours(exited);
    if (ended_by_us && culprit.exception) {
        return {Reason::exit, kExceptionExit};
    }
    if (WIFSIGNALED(exited.wait_status)) {
        const int signal = WTERMSIG(exited.wait_status);
        return {exited.oom.empty() ? Reason::signal : Reason::oom, exit_code_of_signal(signal)};
    }
    return {Reason::exit, WEXITSTATUS(exited.wait_status)};
}

Blame blame_launcher(const RankRecord& launcher) {
    // mpirun has no rank, and exits with 0 only where it had none of our ranks to start.
    return launcher.start_failed || ended_badly(launcher)
               ? blame(launcher)
               : Blame{Reason::start, kExitLauncherFailure};
}

RankClass classify(const RankRecord& rank, const JobRecord& record) {
    if (is_stalling(rank) || rank.start_failed) {
        return RankClass::also_failed;
    }
    if (ended_well(rank)) {
        return RankClass::ok;
    }
    if (!rank.exited) {
        const bool is_host_lost = std::ranges::find(record.lost_hosts, rank.host,
                                                    &HostLoss::host) != record.lost_hosts.end();
        return is_host_lost ? RankClass::lost_host : RankClass::stopped;
    }
    if (fails_for_a_peer(rank)) {
        return RankClass::lost_peer;
    }
    if (rank.exception) {
        return RankClass::also_failed;
    }
    // mpirun ends the others by itself when one has failed.
    const bool by_launcher =
        record.launcher && WIFSIGNALED(rank.exited->wait_status) && !cannot_be_ours(*rank.exited);
    const bool was_asked = rank.exited->is_killed_by_launcher || by_launcher ||
                           ended_with_its_host(record, rank) ||
                           record.cause.kind == Cause::Kind::interrupted;
    return was_asked ? RankClass::stopped : RankClass::also_failed;
}

/// The signal of Slurm's that has ended the rank; else 0.
int step_signal_of(const RankRecord& rank, const JobRecord& record) {
    const int signal = signal_of_end(rank);
    return record.step_signals.contains(signal) ? signal : 0;
}

}  // namespace

Verdict judge(const JobRecord& record) {
    Verdict verdict;
    for (const auto& rank : record.ranks) {
        verdict.classes.push_back(classify(rank, record));
    }
    const auto settle = [&](Reason reason, int exit_code) {
        verdict.reason = reason;
        verdict.exit_code = exit_code;
        return verdict;
    };
    const bool all_well = std::ranges::all_of(record.ranks, ended_well) &&
                          record.lost_hosts.empty() && !launcher_failed(record);
    switch (record.cause.kind) {
        case Cause::Kind::time_limit:
        case Cause::Kind::exit_limit: return settle(Reason::timeout, kExitTimeLimit);
        case Cause::Kind::start_limit: return settle(Reason::start, kExitTimeLimit);
        case Cause::Kind::console_closed: return settle(Reason::interrupted, kExitConsoleClosed);
        case Cause::Kind::interrupted:
            return settle(Reason::interrupted,
                          all_well ? 0 : exit_code_of_signal(record.cause.signal));
        case Cause::Kind::none:
        case Cause::Kind::host_lost:
        case Cause::Kind::rank_failed: break;
    }
    if (all_well) {
        return verdict;
    }
    auto blamed = find_culprit(record);
    if (is_launcher_to_blame(record, blamed)) {
        verdict.is_launcher = true;
        const auto [reason, exit_code] = blame_launcher(*record.launcher);
        return settle(reason, exit_code);
    }
    verdict.culprit = blamed.rank;
    verdict.lost = std::move(blamed.host);
    if (!verdict.culprit) {
        // A host is gone, or ranks were ended by somebody, yet neither by themselves nor by us.
        return settle(Reason::host_lost, kExitLauncherFailure);
    }
    const auto index = static_cast<std::size_t>(*verdict.culprit);
    verdict.step_signal = step_signal_of(record.ranks[index], record);
    if (verdict.step_signal != 0) {
        verdict.culprit.reset();
        for (std::size_t rank = 0; rank < record.ranks.size(); ++rank) {
            if (step_signal_of(record.ranks[rank], record) != 0) {
                verdict.classes[rank] = RankClass::stopped;
            }
        }
        return settle(Reason::interrupted, exit_code_of_signal(verdict.step_signal));
    }
    verdict.classes[index] = RankClass::culprit;
    const auto [reason, exit_code] = blame(record.ranks[index]);
    return settle(reason, exit_code);
}

std::optional<std::int64_t> find_lead(const JobRecord& record, const Verdict& verdict) {
    std::optional<std::int64_t> first;  // of the culprit and those that failed as it did
    std::optional<std::int64_t> next;
    const auto take = [](std::optional<std::int64_t>& least, std::int64_t time_ns) {
        least = std::min(least.value_or(time_ns), time_ns);
    };
    for (std::size_t rank = 0; rank < record.ranks.size(); ++rank) {
        const auto since = own_failure(record.ranks[rank]);
        const auto& exited = record.ranks[rank].exited;
        const auto rank_class = verdict.classes[rank];
        if (rank_class == RankClass::also_failed && since) {
            take(next, *since);
        } else if (rank_class == RankClass::culprit || rank_class == RankClass::same) {
            if (since || exited) {
                take(first, since ? *since : exited->time_ns);  // that left early: its end
            }
        }
    }
    return first && next ? std::optional(*next - *first) : std::nullopt;
}

std::string describe_failure(const RankRecord& rank, const Verdict& verdict) {
    switch (verdict.reason) {
        case Reason::exec: return "cannot execute: " + rank.start_failed->why_not_executed;
        case Reason::start:
            return "cannot start: " +
                   system_error(rank.start_failed->step, rank.start_failed->error_number).message;
        case Reason::oom: return "out of memory: " + rank.exited->oom;
        case Reason::left_early:
            return std::string(ended_well(rank) ? "exit 0" : "shut down") +
                   ", while other ranks still waited for it";
        case Reason::stalled:
            return is_late_to_init(rank) ? describe_lateness(rank)
                                         : "stalled: " + rank.missed->report.text;
        case Reason::signal: return describe_signal(WTERMSIG(rank.exited->wait_status));
        case Reason::exit:
            return rank.exited ? "exit " + std::to_string(verdict.exit_code)
                               : "an exception, and its host was lost before it ended";
        case Reason::none:
        case Reason::host_lost:
        case Reason::timeout:
        case Reason::interrupted: break;
    }
    return "failed";
}

}  // namespace hvd::launch
