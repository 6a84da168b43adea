// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/probe/preflight.hpp"

#include "collectives/base/command_path.hpp"
#include "collectives/base/error.hpp"
#include "launcher/agent/processes/environment_block.hpp"
#include "launcher/agent/processes/exec_failure.hpp"
#include "launcher/model/exit_code.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>

#include <sys/statvfs.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

std::optional<wire::Problem> check_directory(const std::string& path) {
    if (path.empty() || ::access((path + "/.").c_str(), X_OK) == 0) {
        return std::nullopt;
    }
    return wire::Problem{.exit_code = kExitCannotExecute,
                         .text = system_error("working directory " + path, errno).message +
                                 "; start from a folder that every host has"};
}

std::optional<wire::Problem> check_program(const std::string& name,
                                           const std::string& cwd,
                                           const Environment& environment) {
    const auto path = find(environment, "PATH");
    const auto found = find_command(name, path, cwd);
    if (found.is_program()) {
        return std::nullopt;
    }
    return wire::Problem{.exit_code = exit_code_of_exec(found.error),
                         .text = explain_exec_failure(name, found.error, path, cwd)};
}

}  // namespace

Environment environment_of_ranks(const JobPlan& job, const HostPlan& plan) {
    auto environment = plan.ranks.front().env;
    environment.merge(with_own_environment(common_environment(job, plan), plan.inherits_env));
    return environment;
}

std::vector<wire::Problem> find_problems(const JobPlan& job, const HostPlan& plan) {
    std::vector<wire::Problem> problems;
    const auto note = [&](std::optional<wire::Problem> problem) {
        if (problem) {
            problems.push_back(*std::move(problem));
        }
    };
    if (plan.ranks.empty()) {
        return problems;
    }
    const auto& rank = plan.ranks.front();  // all have the same command and directory
    const auto& cwd = cwd_of(job, rank);
    const auto& argv = argv_of(job, rank);
    note(check_directory(cwd));
    if (problems.empty() && !argv.empty()) {
        note(check_program(argv.front(), cwd, environment_of_ranks(job, plan)));
    }
    return problems;
}

std::string warn_of_small_shm() {
    constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
    constexpr std::uint64_t kSmall = 64 * kMiB;  // what containers have by default
    struct statvfs space {};
    if (::statvfs("/dev/shm", &space) != 0) {
        return "there is no /dev/shm; data loaders with workers and NCCL need it";
    }
    const auto bytes = std::uint64_t{space.f_blocks} * space.f_frsize;
    if (bytes > kSmall || bytes == 0) {
        return {};
    }
    return "/dev/shm has only " + std::to_string(bytes / kMiB) +
           " MiB; data loaders with workers and NCCL may need more (docker run --shm-size)";
}

}  // namespace hvd::launch::agent
