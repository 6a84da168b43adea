// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/ranks/spawned_ranks.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/launch_contract/launcher_record.hpp"
#include "collectives/launch_contract/pmi_server.hpp"
#include "launcher/agent/io/clock.hpp"
#include "launcher/agent/processes/exec_failure.hpp"
#include "launcher/agent/processes/group_memory.hpp"
#include "launcher/agent/processes/signals.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace hvd::launch::agent {
namespace {

constexpr int kStartsPerRound = 8;

}  // namespace

SpawnedRanks::SpawnedRanks(JobPlan job,
                           HostPlan plan,
                           const Inheritance& given,
                           int cgroup,
                           RankContext context)
    : job_(std::move(job)),
      plan_(std::move(plan)),
      context_(context),
      spawner_(given, cgroup),
      shared_environment_(
          with_own_environment(take_common_environment(job_, plan_), plan_.inherits_env)),
      pmi_server_(coll::find_pmi_server(current_environment())),
      null_input_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      ranks_(plan_.ranks.size()) {
    for (std::size_t index = 0; index < ranks_.size(); ++index) {
        ranks_[index].spec = index;
        const int rank = plan_.ranks[index].rank;
        if (plan_.stdin_all || (plan_.stdin_rank == rank && !plan_.has_terminal)) {
            context_.input.add_reader(rank);
        }
    }
}

void SpawnedRanks::advance(TimePoint /*now*/) {
    for (int count = 0; count < kStartsPerRound && has_to_start(); ++count) {
        start(ranks_[next_++]);
    }
}

bool SpawnedRanks::is_over(TimePoint /*now*/) {
    return !has_to_start() && running_ == 0;
}

void SpawnedRanks::start(Rank& rank) {
    auto& spec = plan_.ranks[rank.spec];
    const auto fail = [&](std::string step, int error_number, std::string why_not_executed = {}) {
        context_.control.send(wire::StartFailed{.rank = spec.rank,
                                                .step = std::move(step),
                                                .error_number = error_number,
                                                .why_not_executed = std::move(why_not_executed),
                                                .time_ns = steady_clock_ns()});
    };
    const auto& argv = argv_of(job_, spec);
    if (argv.empty()) {
        fail("execve of an empty command", ENOENT, "the command is empty");
        return;
    }
    const auto explain = [this](int error_number) {
        const auto& [command, path, cwd] = looked_up_;
        return explain_exec_failure(command, error_number, path, cwd);
    };
    EnvironmentBlock own(with_launcher_variables(spec.env));
    const auto environment = shared_environment_.with(own);
    const auto& program = find_program(spec, own);
    if (!program.is_program()) {
        fail("execve " + argv.front(), program.error, explain(program.error));
        return;
    }
    const auto opened = open_streams(spec.rank);
    if (const auto* failure = std::get_if<SpawnFailure>(&opened)) {
        fail(failure->step, failure->error_number);
        return;
    }
    const auto& streams = std::get<Streams>(opened);
    SpawnRequest order{.argv = argv,
                       .cpus = spec.cpus,
                       .cwd = cwd_of(job_, spec),
                       .in = streams.in,
                       .out = streams.out,
                       .err = streams.err,
                       .has_terminal = has_terminal(spec.rank)};
    const auto time_ns = steady_clock_ns();
    auto spawned = spawner_.spawn(std::move(order), environment, program.path);
    if (auto* failure = std::get_if<SpawnFailure>(&spawned)) {
        close_terminal(spec.rank);
        fail(std::move(failure->step), failure->error_number,
             failure->is_exec ? explain(failure->error_number) : "");
        return;
    }
    rank.pid = std::get<pid_t>(spawned);
    rank.is_running = true;
    ++running_;
    context_.control.send_soon(
        wire::Started{.rank = spec.rank, .pid = *rank.pid, .time_ns = time_ns});
}

Environment SpawnedRanks::with_launcher_variables(Environment own) const {
    auto record = coll::record_launcher_variables(
        [&](std::string_view name) {
            auto value = hvd::find(own, name);
            return value ? std::move(value) : shared_environment_.find(name);
        },
        pmi_server_);
    own.insert_or_assign(std::string(coll::kEnvLauncherVariables), std::move(record));
    return own;
}

SpawnedRanks::Opened SpawnedRanks::open_streams(int rank) {
    if (has_terminal(rank)) {
        return open_terminal(rank);
    }
    auto output = context_.output.open(rank);
    if (!output) {
        return SpawnFailure{.step = "pipe", .error_number = errno};
    }
    auto input = context_.input.take_read_end(rank);
    return Streams{.in = input ? input.get() : null_input_.get(),
                   .out = output->out.get(),
                   .err = output->err.get(),
                   .pipes = {std::move(input), std::move(output->out), std::move(output->err)}};
}

SpawnedRanks::Opened SpawnedRanks::open_terminal(int rank) {
    auto& terminal = context_.terminal;
    if (auto failure = terminal.open()) {
        return *std::move(failure);
    }
    auto typed = terminal.user_end();
    auto shown = terminal.user_end();
    if (!typed || !shown || !context_.output.add_terminal(rank, std::move(shown))) {
        return SpawnFailure{.step = "dup", .error_number = errno};
    }
    context_.input.add_terminal(rank, std::move(typed));
    const int end = terminal.rank_end();
    return Streams{.in = end, .out = end, .err = end};
}

void SpawnedRanks::close_terminal(int rank) {
    if (has_terminal(rank)) {
        context_.terminal.close();
    }
}

const CommandFile& SpawnedRanks::find_program(const ProcessSpec& spec,
                                              const EnvironmentBlock& environment) {
    auto path = environment.find("PATH");
    if (!path) {
        path = shared_environment_.find("PATH");
    }
    const auto& cwd = cwd_of(job_, spec);
    auto wanted = std::tuple(argv_of(job_, spec).front(), std::move(path), cwd);
    if (wanted != looked_up_ || looked_up_ == decltype(looked_up_){}) {
        looked_up_ = std::move(wanted);
        found_ = find_command(std::get<0>(looked_up_), std::get<1>(looked_up_), cwd);
    }
    return found_;
}

void SpawnedRanks::child_ended(const EndedChild& child) {
    const auto found = std::ranges::find_if(
        ranks_, [&](const Rank& rank) { return rank.is_running && rank.pid == child.pid; });
    if (found == ranks_.end()) {
        return;  // an orphan
    }
    found->is_running = false;
    --running_;
    const int number = plan_.ranks[found->spec].rank;
    context_.input.rank_ended(number);
    context_.output.rank_ended(number);
    close_terminal(number);
    context_.socket.rank_ended(number);
    const int status = child.wait_status;
    const bool was_signalled = WIFSIGNALED(status) && !found->is_killed_by_launcher;
    was_any_killed_ = was_any_killed_ || was_signalled;
    const bool was_killed = was_signalled && WTERMSIG(status) == SIGKILL;
    context_.control.send(
        wire::Exited{.rank = number,
                     .time_ns = steady_clock_ns(),
                     .wait_status = status,
                     .is_killed_by_launcher = found->is_killed_by_launcher,
                     .oom = was_killed ? explain_kill(child.pid, child.max_rss_bytes) : "",
                     .max_rss_bytes = child.max_rss_bytes});
}

/// The evidence that memory ran out, if there is any, and the processes that hold it now: often not
/// the rank that was killed, but its loaders or another rank. Only the first killed rank is
/// explained: the explanation reads every process's memory, while other processes have to be ended.
std::string SpawnedRanks::explain_kill(pid_t pid, std::uint64_t max_rss_bytes) {
    auto why = context_.oom.take_kill(pid);
    if (why.empty()) {
        return why;
    }
    why += "; it had used " + in_mebibytes(max_rss_bytes);
    if (std::exchange(has_told_memory_, true)) {
        return why;
    }
    std::map<pid_t, int> groups;
    for (const auto& rank : ranks_) {
        const int number = plan_.ranks[rank.spec].rank;
        if (rank.pid && number != kLauncherRank) {
            groups.emplace(*rank.pid, number);
        }
    }
    const auto left = describe_memory(measure_groups(groups));
    return left.empty() ? why : why + "; left then: " + left;
}

void SpawnedRanks::signal(int number) {
    for (auto& rank : ranks_) {
        if (!rank.is_running) {
            continue;
        }
        rank.is_killed_by_launcher =
            rank.is_killed_by_launcher || number == SIGTERM || number == SIGKILL;
        rank.was_asked = rank.was_asked || is_stop_signal(number);
        // The rank has not been reaped, so its number is still its own; it may have left its group.
        if (!is_for_group(number) || ::kill(-*rank.pid, number) != 0) {
            (void)::kill(*rank.pid, number);
        }
    }
}

bool SpawnedRanks::was_asked(pid_t group) const {
    return std::ranges::any_of(
        ranks_, [group](const Rank& rank) { return rank.pid == group && rank.was_asked; });
}

void SpawnedRanks::mark_killed_by_launcher() {
    for (auto& rank : ranks_) {
        rank.is_killed_by_launcher = true;
        rank.was_asked = rank.was_asked || rank.is_running;
    }
}

std::optional<pid_t> SpawnedRanks::pid_of(int rank) const {
    for (const auto& candidate : ranks_) {
        if (candidate.is_running && plan_.ranks[candidate.spec].rank == rank) {
            return candidate.pid;
        }
    }
    return std::nullopt;
}

}  // namespace hvd::launch::agent
