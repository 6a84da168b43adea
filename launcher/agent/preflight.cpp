// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/preflight.hpp"

#include "collectives/base/error.hpp"
#include "launcher/agent/command_path.hpp"
#include "launcher/agent/ranks.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include <sys/statvfs.h>
#include <unistd.h>

namespace hvd::launch::agent {
namespace {

constexpr std::int32_t kCannotExecute = 126;
constexpr std::int32_t kNotFound = 127;

std::optional<wire::Problem> check_directory(const std::string& path) {
    if (path.empty() || ::access((path + "/.").c_str(), X_OK) == 0) {
        return std::nullopt;
    }
    return wire::Problem{.exit_code = kCannotExecute,
                         .text = system_error("working directory " + path, errno).message +
                                 "; start from a folder that every host has"};
}

std::optional<wire::Problem> check_program(const Environment& shared, const ProcessSpec& rank) {
    auto environment = rank.env;
    environment.insert(shared.begin(), shared.end());
    const auto path = find(environment, "PATH");
    const auto& name = rank.argv.front();
    const auto found = find_command(name, path, rank.cwd);
    const auto* error = std::get_if<int>(&found);
    if (error == nullptr) {
        return std::nullopt;
    }
    if (*error != ENOENT) {
        return wire::Problem{
            .exit_code = kCannotExecute,
            .text = system_error(name, *error).message + "; make it executable there"};
    }
    const auto python3 = find_command("python3", path, rank.cwd);
    const bool is_renamed = name == "python" && std::holds_alternative<std::string>(python3);
    const bool is_searched = name.find('/') == std::string::npos;
    return wire::Problem{
        .exit_code = kNotFound,
        .text = name + ": not found" + (is_searched ? " in PATH=" + path.value_or("") : "") +
                (is_renamed ? "; write python3, which is there"
                            : "; install it there, or write a path that every host has")};
}

}  // namespace

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
    note(check_directory(rank.cwd));
    if (problems.empty() && !rank.argv.empty()) {
        note(check_program(whole_environment(common_environment(job, plan), plan), rank));
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
