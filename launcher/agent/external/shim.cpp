// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/external/shim.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/base/text.hpp"
#include "collectives/base/unix_socket.hpp"
#include "collectives/launch_contract/launch_env.hpp"
#include "collectives/launch_contract/launcher_choice.hpp"
#include "collectives/launch_contract/launcher_record.hpp"
#include "collectives/launch_contract/launcher_variables.hpp"
#include "collectives/launch_contract/mpi_job.hpp"
#include "collectives/launch_contract/pmi_server.hpp"
#include "launcher/agent/external/die_with_parent.hpp"
#include "launcher/agent/external/launcher_variables.hpp"
#include "launcher/agent/external/shim_protocol.hpp"
#include "launcher/agent/processes/affinity.hpp"
#include "launcher/agent/processes/environment_block.hpp"
#include "launcher/agent/processes/exec_failure.hpp"
#include "launcher/model/exit_code.hpp"
#include "launcher/plan/cpu_shares.hpp"
#include "launcher/wire/build_id.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

/// The agent is on this host and answers at once, however busy the host is.
constexpr auto kTimeout = std::chrono::seconds(30);

bool is_of_mpi(std::string_view name) {
    return std::ranges::any_of(kMpiVariables,
                               [&](std::string_view start) { return name.starts_with(start); });
}

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

/// The connection to the agent; the agent hears by its end that the command was executed.
class Agent {
public:
    /// Errors: unavailable, when no agent of the job is here.
    static Result<Agent> find(const coll::MpiJob& job, const MpiTask& task, Deadline deadline) {
        const auto host = job.host_of(task.rank);
        const auto name = coll::shim_socket(job.job_id, host);
        HVD_TRY(auto socket, connect_abstract(name, SOCK_STREAM, deadline));
        if (!socket) {
            return Error{Errc::unavailable,
                         "rank " + std::to_string(task.rank) + " was planned on host " +
                             job.hosts[host].host + ", but " + host_name() +
                             ", where it was started, has no agent for it; let horovodrun choose "
                             "the places (leave -H, --hostfile and --map-by out of --mpi-args)"};
        }
        HVD_TRY(const auto peer, peer_credentials(socket.get()));
        if (peer.uid != ::geteuid()) {
            return Error{Errc::unavailable, "the agent at socket @" + name + " is of user " +
                                                std::to_string(peer.uid) + ", we are of user " +
                                                std::to_string(::geteuid())};
        }
        return Agent(std::move(socket));
    }

    Result<ShimReply> claim(const coll::MpiJob& job,
                            const MpiTask& task,
                            pid_t parent,
                            bool needs_watch,
                            Deadline deadline) {
        const ShimClaim claim{.build_id = std::string(wire::build_id()),
                              .job_id = job.job_id,
                              .rank = task.rank,
                              .size = job.size(),
                              .pid = ::getpid(),
                              .parent = parent,
                              .needs_watch = needs_watch,
                              .starts_in_turn = task.starts_in_turn};
        HVD_TRY_STATUS(send_all(socket_.get(), encode(claim), deadline));
        while (true) {
            HVD_TRY(const auto body, frames_.next());
            if (body) {
                return decode_reply(*body);
            }
            HVD_TRY(auto packet, receive_packet(socket_.get(), deadline));
            frames_.feed(packet.bytes);
            std::ranges::move(packet.fds, std::back_inserter(streams_));
        }
    }

    /// Puts the agent's pipes in the place of mpirun's. Open MPI closes the input of a rank that
    /// has closed its outputs, so one stays open where there is input. Returns the errno.
    [[nodiscard]] int take_streams() const {
        int number = STDOUT_FILENO;
        if (has_input() && !streams_.empty() &&
            ::fcntl(STDERR_FILENO, F_DUPFD, STDERR_FILENO + 1) < 0) {
            return errno;
        }
        for (const auto& stream : streams_) {
            if (::dup2(stream.get(), number++) < 0) {
                return errno;
            }
        }
        return 0;
    }

    void report(const ShimFailure& failure) {
        (void)send_all(socket_.get(), encode(failure), Deadline::in(std::chrono::seconds(1)));
    }

private:
    explicit Agent(UniqueFd socket) : socket_(std::move(socket)) {}

    UniqueFd socket_;
    ShimFrames frames_;
    /// Not /dev/null.
    [[nodiscard]] static bool has_input() {
        struct stat input {};
        return ::fstat(STDIN_FILENO, &input) == 0 && S_ISFIFO(input.st_mode);
    }

    std::vector<UniqueFd> streams_;  // standard output and standard error, or none
};

/// Says why and returns the exit code.
int refuse(const Error& error, int exit_code) {
    (void)std::fprintf(stderr, "horovodrun: %s\n", error.message.c_str());
    return exit_code;
}

/// Returns the errno.
int pin(std::span<const std::int32_t> cpus) {
    return cpus.empty() || CpuMask(cpus).pin() ? 0 : errno;
}

std::string current_folder() {
    std::error_code unknown;
    return std::filesystem::current_path(unknown).string();
}

/// Like execvp, in a given environment. Returns the errno.
int execute(std::span<char* const> command, const Environment& environment) {
    auto [program, error] =
        find_command(command.front(), find(environment, "PATH"), current_folder());
    if (error != 0) {
        return error;
    }
    std::vector<char*> argv(command.begin(), command.end());
    argv.push_back(nullptr);
    EnvironmentBlock block(environment);
    EnvironmentBlock unchanged({});
    const auto pointers = block.with(unchanged);
    ::execve(program.c_str(), argv.data(), pointers.data());
    if (errno == ENOEXEC) {
        std::string shell = "sh";
        std::vector<char*> script{shell.data(), program.data()};
        script.insert(script.end(), std::next(argv.begin()), argv.end());
        ::execve("/bin/sh", script.data(), pointers.data());
    }
    return errno;
}

std::string explain(std::span<char* const> command,
                    int error_number,
                    const Environment& environment) {
    return explain_exec_failure(command.front(), error_number, find(environment, "PATH"),
                                current_folder());
}

}  // namespace

Result<MpiTask> read_mpi_task(const Environment& environment) {
    for (const auto& launcher : kMpiLaunchers) {
        const auto* const variables = std::ranges::find(coll::kLauncherVariables, launcher.word,
                                                        &coll::LauncherVariables::word);
        const auto rank = variables->rank[0];
        const auto size = variables->size[0];
        if (!find(environment, rank)) {
            continue;
        }
        MpiTask task{.launcher = launcher.name, .starts_in_turn = launcher.starts_in_turn};
        HVD_TRY(task.rank, coll::read_number(environment, rank, 0));
        if (!size.empty()) {
            HVD_TRY(task.size, coll::read_number(environment, size, 1));
        }
        if (task.size != 0 && task.rank >= task.size) {
            return Error{Errc::invalid_argument,
                         std::string(rank) + "=" + std::to_string(task.rank) + " is not below " +
                             std::string(size) + "=" + std::to_string(task.size)};
        }
        return task;
    }
    return Error{Errc::invalid_argument,
                 "no launcher of MPI has started this process: none of OMPI_COMM_WORLD_RANK, "
                 "PMI_RANK, JSM_NAMESPACE_RANK and PMIX_RANK is set"};
}

int run_shim(std::span<char* const> command) {
    auto environment = current_environment();
    const auto task = read_mpi_task(environment);
    if (!task) {
        return refuse(task.error(), kExitUsage);
    }
    const auto text = find(environment, coll::kEnvMpiJob);
    if (!text) {
        return refuse(
            {Errc::invalid_argument, std::string(coll::kEnvMpiJob) +
                                         " is not set: horovodrun --mpi or --jsrun sets it; was it "
                                         "kept from this host?"},
            kExitUsage);
    }
    const auto job = coll::decode_mpi_job(*text);
    if (!job) {
        return refuse(job.error(), kExitUsage);
    }
    if (task->rank >= job->size() || (task->size != 0 && task->size != job->size())) {
        return refuse({Errc::invalid_argument,
                       std::string(task->launcher) + " made this process rank " +
                           std::to_string(task->rank) + " of " + std::to_string(task->size) +
                           ", but horovodrun planned " + std::to_string(job->size()) +
                           " ranks; leave numbers of ranks out of --mpi-args, and give "
                           "--binding-args of jsrun as many tasks"},
                      kExitUsage);
    }

    const auto deadline = Deadline::in(kTimeout);
    auto agent = Agent::find(*job, *task, deadline);
    if (!agent) {
        return refuse(agent.error(), kExitLauncherFailure);
    }
    const pid_t parent = ::getppid();
    const bool needs_watch = !is_signalled_in_time(parent);
    auto reply = agent->claim(*job, *task, parent, needs_watch, deadline);
    if (!reply) {
        return refuse(std::move(reply).error().context("the agent of " + host_name()),
                      kExitLauncherFailure);
    }
    if (!reply->refusal.empty()) {
        return refuse({Errc::invalid_argument, reply->refusal}, kExitLauncherFailure);
    }

    const auto fail = [&](std::string step, int error_number) {  // horovodrun says it
        agent->report({.step = std::move(step), .error_number = error_number});
        return kExitLauncherFailure;
    };
    if (reply->is_env_clean) {
        std::erase_if(environment, [](const auto& entry) { return !is_of_mpi(entry.first); });
    }
    for (auto& [name, value] : reply->env) {
        environment.insert_or_assign(name, std::move(value));
    }
    environment.insert_or_assign(std::string(coll::kEnvLauncherVariables),
                                 coll::record_launcher_variables(
                                     [&](std::string_view name) { return find(environment, name); },
                                     coll::find_pmi_server(environment)));
    if (const int error = agent->take_streams(); error != 0) {
        return fail("dup2", error);
    }
    if (const int error = pin(reply->cpus); error != 0) {
        return fail("sched_setaffinity", error);
    }
    const int untied = !needs_watch ? arm_death_signal(parent) : ::getppid() == parent ? 0 : ECHILD;
    if (untied != 0) {
        return fail("prctl PR_SET_PDEATHSIG", untied);
    }
    const int error = execute(command, environment);
    agent->report({.step = std::string("execve ") + command.front(),
                   .error_number = error,
                   .why_not_executed = explain(command, error, environment)});
    return exit_code_of_exec(error);
}

int run_task(const Task& task, Environment environment, bool pins, std::span<char* const> command) {
    const auto allowed = allowed_cpus();
    // A task with fewer CPUs than the machine was given them by its launcher or a cgroup.
    const bool is_free = static_cast<long>(allowed.size()) == ::sysconf(_SC_NPROCESSORS_ONLN);
    std::vector<std::int32_t> cpus;
    if (is_free && task.local_rank >= 0 && task.local_rank < task.local_size) {
        const std::vector<std::vector<int>> near(static_cast<std::size_t>(task.local_size));
        const auto shares = share_cpus(allowed, near);
        const auto& share = shares[static_cast<std::size_t>(task.local_rank)];
        cpus.assign(share.begin(), share.end());
    }
    const auto threads = std::max<std::size_t>(1, is_free ? cpus.size() : allowed.size());
    environment.emplace("OMP_NUM_THREADS", std::to_string(threads));
    environment.emplace("PYTHONUNBUFFERED", "1");
    if (const int error = pins ? pin(cpus) : 0; error != 0) {
        return refuse(system_error("sched_setaffinity", error), kExitLauncherFailure);
    }
    if (const int error = die_with_parent(); error != 0) {
        return refuse(system_error("prctl PR_SET_PDEATHSIG", error), kExitLauncherFailure);
    }
    const int error = execute(command, environment);
    return refuse({Errc::unavailable, "cannot execute: " + explain(command, error, environment)},
                  exit_code_of_exec(error));
}

}  // namespace hvd::launch::agent
