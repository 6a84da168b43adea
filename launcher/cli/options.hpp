// SPDX-License-Identifier: Apache-2.0
//
// argv → LaunchRequest. Nothing after this reads argv, flags or the config file.
#pragma once

#include "collectives/base/env.hpp"
#include "collectives/base/result.hpp"
#include "launcher/hosts/host_spec.hpp"
#include "launcher/hosts/task.hpp"
#include "launcher/output/line_prefix.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hvd::launch {

enum class OutputFormat { text, json };
enum class GpuBind { index, env, none };
enum class BindTo { share, none };  // an even share of the CPUs for each rank, or no pinning

/// Whether the first rank that fails ends the job, or the others go on.
enum class FailureRule { stop, wait };

/// How other hosts are reached. What is unset is ~/.ssh/config's to say.
struct RemoteRequest {
    std::optional<int> port;
    std::optional<std::filesystem::path> identity;  // a private key
    int concurrency = 512;                          // hosts that are being connected to at a time
    std::string shell;  // a command instead of SSH, words as sh reads them; empty: SSH
    std::string wrap;   // what the agent runs inside of, words as the host's sh reads them

    friend bool operator==(const RemoteRequest&, const RemoteRequest&) = default;
};

/// --mpi: an mpirun starts the ranks; --jsrun: jsrun does.
struct MpiRequest {
    bool is_wanted = false;  // either
    bool is_jsrun = false;
    std::string program = "mpirun";  // HOROVOD_MPIRUN, or jsrun
    std::string args;                // words as sh reads them, and so are the next
    std::string binding_args;        // empty: no binding
    bool is_tcp = false;
    std::vector<Host> allocation{};  // of jsrun: all its hosts in their order, with their slots
    std::optional<int> ssh_port{};   // for the ssh of mpirun

    friend bool operator==(const MpiRequest&, const MpiRequest&) = default;
};

/// An address as it was written: a name or a literal without brackets.
struct EndPoint {
    std::string host;
    int port = 0;

    friend bool operator==(const EndPoint&, const EndPoint&) = default;
};

/// What was asked of Slurm at once: a whole job, or a component of a heterogeneous one.
struct SlurmComponent {
    std::vector<std::string> nodes;
    bool has_gpus_by_task = false;  // a node of a step has GPUs for the step's tasks there
};

/// An allocation of Slurm.
struct SlurmJob {
    std::string id;
    bool is_heterogeneous = false;
    std::vector<SlurmComponent> components;
};

/// Everything the user asked for, checked and typed. Sources: flag, then config file, then
/// environment, then default.
struct LaunchRequest {
    std::optional<int> processes;  // unset: as many as the hosts have slots
    std::vector<Host> hosts;       // empty: this machine
    bool slots_are_cpus = false;   // of `hosts`: where a host has GPUs, these make its slots
    std::vector<std::string> command;
    RemoteRequest remote;
    MpiRequest mpi;

    std::optional<SlurmJob> slurm_job;     // srun starts the agents of its nodes
    std::optional<std::int64_t> end_time;  // of the allocation, in seconds of Unix time

    std::optional<EndPoint> listen;  // hosts join by themselves, here
    std::optional<int> join_hosts;   // so many of them
    std::optional<std::filesystem::path> join_token_file;

    std::optional<PortSpan> ports;  // for all that listens: horovodrun, MASTER_PORT, the ranks

    bool dry_run = false;
    OutputFormat output_format = OutputFormat::text;
    std::optional<std::filesystem::path> facts_file;  // plan from recorded facts, start nothing

    GpuBind gpu_bind = GpuBind::index;
    int gpus_per_rank = 1;
    bool may_lack_gpus = false;  // the number above is Slurm's: a host without GPUs is no error
    bool share_gpus = false;
    BindTo bind_to = BindTo::share;
    bool may_oversubscribe = true;

    Environment env_set;                // --env K=V
    std::vector<std::string> env_pass;  // --env-pass GLOB
    bool env_clean = false;             // only --env and --env-pass reach the ranks
    Environment tunables;               // HOROVOD_* from flags and config file

    std::optional<std::filesystem::path> output_filename;
    bool prefix_timestamp = false;
    std::optional<LinePrefix> prefix;
    std::optional<std::vector<int>> show;  // ranks whose output reaches the console
    std::optional<std::filesystem::path> summary;
    int error_lines = 20;  // of the culprit's standard error, in the report
    std::optional<std::filesystem::path> launch_trace;
    bool stdin_all = false;
    std::optional<int> stdin_rank;  // neither: the ranks read /dev/null
    bool verbose = false;

    std::vector<std::string> notes;  // a person should read these before the start

    std::chrono::milliseconds start_timeout{30'000};
    std::optional<std::chrono::milliseconds> timeout;  // for the whole job
    std::chrono::milliseconds grace{10'000};           // between TERM and KILL
    std::chrono::milliseconds lease{30'000};           // a host silent for so long is lost
    FailureRule on_failure = FailureRule::stop;
    std::optional<std::chrono::milliseconds> exit_timeout;  // from the first good end to the last
};

/// The program should print `text` and stop with success (--help, --version).
struct PrintAndExit {
    std::string text;
};

/// The program should print what was built and what was found, and stop (--check-build).
struct CheckBuild {
    bool verbose = false;
};

/// The hosts of a job should be examined and no rank be started (`horovodrun doctor`). The job need
/// not say how many ranks there are, nor what they run.
struct Examine {
    LaunchRequest job;
    bool json = false;
};

/// The first words of command lines that run no job. A program of that name is started by
/// `horovodrun -- doctor`.
inline constexpr std::string_view kDoctor = "doctor";
inline constexpr std::string_view kTimeline = "timeline";

/// The traces of a job should become one (`horovodrun timeline`).
struct MergeTimelines {
    std::filesystem::path folder;
    std::optional<std::filesystem::path> output{};  // unset: standard output

    friend bool operator==(const MergeTimelines&, const MergeTimelines&) = default;
};

/// The program should be a host of somebody else's job (--join).
struct JoinRequest {
    EndPoint launcher;
    std::optional<std::filesystem::path> token_file;  // unset: standard input
    std::string name;                                 // empty: the hostname
    int slots = 0;                                    // 0: as many as the host has
    std::chrono::milliseconds patience{600'000};
};

/// Another launcher has started us in the place of its task: the command should become it.
struct RunTask {
    Task task;
    LaunchRequest job;
};

/// The command is an mpirun, in whose line we should stand before its program.
struct RunLine {
    std::vector<std::string> line;
};

using Parsed = std::variant<LaunchRequest,
                            PrintAndExit,
                            CheckBuild,
                            Examine,
                            MergeTimelines,
                            JoinRequest,
                            RunTask,
                            RunLine>;

/// Reads the command line, and the config file it names. `environment` is horovodrun's own, for
/// HOROVOD_START_TIMEOUT. Errors: invalid_argument with the flag, the value and the remedy.
[[nodiscard]] Result<Parsed> parse_command_line(const std::vector<std::string>& arguments,
                                                const Environment& environment);

}  // namespace hvd::launch
