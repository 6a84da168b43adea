// SPDX-License-Identifier: Apache-2.0
//
// The plan of a job, as values that can be printed before any rank is started.
#pragma once

#include "collectives/base/env.hpp"
#include "launcher/model/host_facts.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::launch {

/// One rank. The agent runs it exactly so.
struct ProcessSpec {
    int rank = 0;
    int local_rank = 0;
    int local_size = 1;
    int cross_rank = 0;
    int cross_size = 1;
    std::vector<Gpu> gpus;          // the rank's own; empty without GPUs or with --gpu-bind none
    std::vector<int> cpus;          // to pin to; empty leaves the affinity alone
    Environment env;                // set for this rank alone
    std::string cwd;                // empty: the job's
    std::vector<std::string> argv;  // empty: the job's

    friend bool operator==(const ProcessSpec&, const ProcessSpec&) = default;
};

/// Stands for the program that starts the ranks in the agents' place.
inline constexpr int kLauncherRank = -2;

/// The same for all hosts of a job.
struct JobPlan {
    std::string id;         // 32 hexadecimal digits
    Environment env;        // of horovodrun, that every host gets
    Environment ranks_env;  // set for all ranks
    std::string cwd{};      // of all ranks
    std::vector<std::string> argv{};
    bool is_env_clean = false;  // what mpirun gives the ranks besides is dropped, but MPI's own

    friend bool operator==(const JobPlan&, const JobPlan&) = default;
};

/// The name of the starter of the agent on horovodrun's own machine.
inline constexpr std::string_view kLocalStarter = "local";

/// Everything else that one agent needs.
struct HostPlan {
    std::string host;
    std::string starter;  // "local", "ssh", ...
    int slots = 0;
    std::string agent_socket;   // abstract Unix socket that the agent binds for its ranks
    Environment env;            // of horovodrun, that this host gets besides
    bool inherits_env = false;  // on top of the agent's own environment; else it is the whole
    Environment ranks_env;      // set for the ranks of this host
    std::vector<ProcessSpec> ranks;
    int stdin_rank = -1;        // which rank reads horovodrun's standard input
    bool stdin_all = false;     // every rank gets a copy of it
    bool has_terminal = false;  // stdin_rank has a terminal for all its streams
    // The program that starts the ranks of all hosts, mpirun or jsrun, or none.
    std::vector<ProcessSpec> launchers{};
    std::string shim_socket{};                // where ranks come in that it starts, or empty
    std::chrono::milliseconds grace{10'000};  // between TERM and KILL

    friend bool operator==(const HostPlan&, const HostPlan&) = default;
};

/// A file of our own machine.
struct PlanFile {
    std::string path;
    std::string text;

    friend bool operator==(const PlanFile&, const PlanFile&) = default;
};

struct LaunchPlan {
    std::string mode;  // "native", "mpi" or "jsrun"
    int np = 0;
    JobPlan job;
    std::vector<HostPlan> hosts;
    std::optional<PlanFile> launcher_file{};  // what the program of `launchers` reads, if anything

    friend bool operator==(const LaunchPlan&, const LaunchPlan&) = default;
};

/// The variables that all ranks of a host have in common. The narrower wins: host over job, what is
/// set over what horovodrun has.
[[nodiscard]] Environment common_environment(const JobPlan& job, const HostPlan& host);

/// The same, made of theirs, which are left without.
[[nodiscard]] Environment take_common_environment(JobPlan& job, HostPlan& host);

/// Where a rank runs, and what.
[[nodiscard]] const std::string& cwd_of(const JobPlan& job, const ProcessSpec& rank) noexcept;
[[nodiscard]] const std::vector<std::string>& argv_of(const JobPlan& job,
                                                      const ProcessSpec& rank) noexcept;

/// The variables of a rank on top of horovodrun's environment, or of its host's.
[[nodiscard]] Environment added_environment(const JobPlan& job,
                                            const HostPlan& host,
                                            const ProcessSpec& rank);

}  // namespace hvd::launch
